"""The command of verify for a connector, and what the user has to write first."""

from __future__ import annotations

import pytest

from mirror_connect.check.links import connector_link
from mirror_connect.check.report import VerifyLink

SOURCE = {
    "connector.class": "MirrorSource",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
}
_OF_HEADERS = {"transforms.a.headers": "trace"}


def test_a_config_that_says_all_needs_no_files() -> None:
    config = {**SOURCE, "target.cluster.bootstrap.servers": "b:1"}
    link = connector_link("my link", config, "http://w:8083", "ann")
    assert link == VerifyLink("my link", ("my link", "--worker", "http://w:8083", "--user", "ann"))
    assert link.command() == "mirror-connect verify 'my link' --worker http://w:8083 --user ann"


def test_what_the_config_does_not_say_is_a_file_of_the_users() -> None:
    link = connector_link("a", {**SOURCE, "target.cluster.sasl.jaas.config": "${file:x:y}"})
    assert link is not None
    assert link.command() == "mirror-connect verify a --worker http://localhost:8083 --target target.properties"
    assert link.note.startswith("First write target.properties: the client properties of the target cluster")


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("com.acme.Policy", True),
        ("org.apache.kafka.connect.mirror.IdentityReplicationPolicy", False),
        ("python:a:B", False),
    ],
)
def test_a_link_whose_policy_is_refused_has_no_command(policy: str, refused: bool) -> None:
    link = connector_link("a", {**SOURCE, "replication.policy.class": policy})
    assert link is not None
    assert bool(link.impossible) is refused


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.DropHeaders", **_OF_HEADERS},
            "transforms changes records",
        ),
        ({"spark.transform.sql": "SELECT value FROM records"}, "spark.transform.sql changes records"),
        ({"spark.transform.python": "shop.orders:mask"}, "spark.transform.python changes records"),
        ({"topics": "("}, "it refuses the config, too. Mend it first: topics."),
    ],
)
def test_a_link_that_verify_refuses_has_no_command(settings: dict[str, str], told: str) -> None:
    link = connector_link("a", {**SOURCE, **settings})
    assert link is not None
    assert told in link.impossible


def test_other_names_of_copies_can_be_compared() -> None:
    route = {
        "transforms": "a",
        "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.a.regex": "A.(.*)",
        "transforms.a.replacement": "$1",
    }
    link = connector_link("a", {**SOURCE, **route})
    assert link is not None
    assert not link.impossible


def test_other_connectors_copy_nothing() -> None:
    assert connector_link("a", {"connector.class": "MirrorCheckpoint"}) is None
    assert connector_link("a", {}) is None


def test_client_properties_of_a_checked_file_are_printed_for_the_shell() -> None:
    link = VerifyLink("A->B", ("--source-alias", "A"), "my mm2.properties", {"--source": "A", "--target": "B"})
    assert link.command() == (
        "mirror-connect verify --source-alias A --source <(mirror-connect check 'my mm2.properties' --client A) "
        "--target <(mirror-connect check 'my mm2.properties' --client B)"
    )
