"""The dead letter topic of a config: which names it may have, when it has no effect, and what a user is warned of."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.mirror.dead_letters import (
    CONTEXT,
    REPLICAS,
    TOPIC,
    DeadLetterTopic,
    dead_letter_notices,
    dead_letter_topic,
    transformation_classes,
)
from mirror_connect.connectors.mirror.filters import LeftOut
from mirror_connect.connectors.mirror.mirror_source import MirrorSource, topic_selection
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY

CONFIG = {
    "name": "link",
    "connector.class": MirrorSource.class_name,
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "errors.tolerance": "all",
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.DropHeaders",
    "transforms.drop.headers": "h",
}


def topic_of(**changed: str) -> DeadLetterTopic | None:
    return dead_letter_topic(MirrorSource().settings({**CONFIG, **changed}))


def test_the_defaults_are_kafkas() -> None:
    assert topic_of() is None
    assert topic_of(**{TOPIC: "letters"}) == DeadLetterTopic("letters", 3, context=False)
    assert topic_of(**{TOPIC: "letters", REPLICAS: "-1", CONTEXT: "true"}) == DeadLetterTopic(
        "letters", -1, context=True
    )


@pytest.mark.parametrize("changed", [{"errors.tolerance": "none"}, {"transforms": ""}, {TOPIC: ""}])
def test_it_has_no_effect_without_something_that_could_be_skipped(changed: dict[str, str]) -> None:
    assert topic_of(**{TOPIC: "letters", **changed}) is None


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("letters", True),
        ("A.letters", True),
        ("dlq_1-x", True),
        ("no topic", False),
        ("..", False),
        ("x" * 250, False),
        ("__consumer_offsets", False),
        ("mm2-offset-syncs.B.internal", False),
        ("A.checkpoints.internal", False),
        ("heartbeats", False),
    ],
)
def test_a_name_that_can_not_be_or_that_others_trust_is_refused(name: str, *, allowed: bool) -> None:
    found = MirrorSource().validate({**CONFIG, TOPIC: name})[TOPIC].errors
    assert bool(found) != allowed
    assert all(name in line and TOPIC in line for line in found)


def test_a_name_from_a_provider_is_not_shown() -> None:
    found = MirrorSource().validate({**CONFIG, TOPIC: "se cret"}, {**CONFIG, TOPIC: "${file:a:b}"})
    assert "se cret" not in "".join(found[TOPIC].errors)


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        pytest.param({}, "Topic letters on the target gets records that can't be transformed, as the", id="unmasked"),
        pytest.param({"errors.tolerance": "none"}, "Without effect, as errors.tolerance is not all", id="none"),
        pytest.param({"transforms": ""}, "Without effect, as the connector has no transformations", id="nothing_fails"),
        pytest.param({TOPIC: "", REPLICAS: "1"}, f"Without effect, as {TOPIC} is not set", id="no_topic"),
    ],
)
def test_a_user_is_told(changed: dict[str, str], begins: str) -> None:
    config = {**CONFIG, TOPIC: "letters", **changed}
    (line,) = dead_letter_notices(config)
    assert line.startswith(begins)
    assert line in MirrorSource().warnings(config)
    assert list(dead_letter_notices(CONFIG)) == []


def test_no_topic_is_copied_into_it_whatever_the_policy() -> None:
    """So a link back that brings it home leads to no loop."""
    selection = topic_selection(MirrorSource().settings({**CONFIG, TOPIC: "A.letters"}))
    assert selection.left_out("letters") is LeftOut.RESERVED
    assert selection.left_out("orders") is None
    config = {**CONFIG, TOPIC: "letters", "replication.policy.class": IDENTITY_POLICY}
    selection = topic_selection(MirrorSource().settings(config)).with_reserved({"connect-configs"})
    assert selection.left_out("letters") is LeftOut.RESERVED
    assert selection.left_out("connect-configs") is LeftOut.RESERVED
    assert selection.left_out("orders") is None


def test_transformations_are_known_by_their_classes() -> None:
    assert transformation_classes(CONFIG) == {"drop": "org.apache.kafka.connect.transforms.DropHeaders"}
    assert transformation_classes({}) == {}
