"""What surprises in a valid config is said, once, and nothing else is."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY

SOURCE = connector_definition("MirrorSource")
VALID = {"name": "v", "connector.class": "MirrorSource", "source.cluster.alias": "A", "topics": "t"}


def said(caplog: pytest.LogCaptureFixture, config: dict[str, str], notices: ConfigNotices | None = None) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        (notices or ConfigNotices("connect-offsets")).log_once("v", SOURCE, config, config)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        pytest.param(
            {"security.protocol": "SSL", "sasl.mechanism": "PLAIN", "source.cluster.security.protocol": "SSL"},
            "sasl.mechanism, security.protocol: no effect on any client, as in MirrorMaker 2. Give client settings "
            "the prefix source.cluster. or target.cluster., such as source.cluster.sasl.mechanism",
            id="a_login_without_prefix",
        ),
        pytest.param(
            {"target.cluster.alias": "A"},
            "source.cluster.alias and target.cluster.alias are both A: topics with the prefix of A count as come from the "
            "target and are not copied; give each cluster an alias of its own",
            id="one_alias_for_both",
        ),
        pytest.param(
            {"source.cluster.alias": "target", "replication.policy.class": IDENTITY_POLICY},
            "source.cluster.alias and target.cluster.alias are both target: every topic counts as come from the target and "
            "is not copied; give each cluster an alias of its own",
            id="one_alias_by_default_and_all_names_kept",
        ),
        pytest.param(
            {"value.converter": "org.apache.kafka.connect.json.JsonConverter"},
            "Converters are not applied, records are written byte for byte as they are. Kafka Connect would write values as "
            "JSON that holds their bytes in base64 (value.converter=org.apache.kafka.connect.json.JsonConverter). To "
            "avoid this line, set ByteArrayConverter for each, in the connector's or the worker's config",
            id="a_converter_that_is_not_applied",
        ),
    ],
)
def test_what_a_config_does_not_do_is_said(config: dict[str, str], line: str, caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, {**VALID, **config}) == [f"Connector v: {line}"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("topcis", "topcis (did you mean topics?)", id="of_the_connector"),
        pytest.param("task.max", "task.max (did you mean tasks.max?)", id="of_connect"),
        pytest.param(
            "source.cluster.bootstrap.server",
            "source.cluster.bootstrap.server (did you mean source.cluster.bootstrap.servers?)",
            id="of_a_cluster",
        ),
        pytest.param(
            "source.consumer.fetch.max.byte",
            "source.consumer.fetch.max.byte (did you mean source.consumer.fetch.max.bytes?)",
            id="of_a_client",
        ),
        pytest.param(
            "sorce.consumer.client.rack", "sorce.consumer.client.rack (did you mean source.consumer.client.rack?)",
            id="a_prefix",
        ),
        pytest.param("owner", "owner", id="like_nothing"),
    ],
)  # fmt: skip
def test_an_unknown_property_is_named_with_what_it_resembles(
    name: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = f"Connector v: These properties are unknown and have no effect: {shown}"
    assert said(caplog, {**VALID, name: "1"}) == [line]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("transforms.a.excludes", "{} (did you mean transforms.a.exclude?)", id="misspelt"),
        pytest.param("transforms.a.blacklist", "{} (transforms.a.exclude replaced it)", id="of_an_earlier_kafka"),
        pytest.param("transforms.b.type", "{} (did you mean transforms.a.type?)", id="of_no_alias"),
        pytest.param("predicates.p.names.of.topics", "{}", id="of_a_predicate"),
    ],
)
@pytest.mark.parametrize("derived", [False, True], ids=["of_rest", "of_a_file"])
def test_a_setting_that_a_transformation_does_not_have_is_named(
    derived: bool, name: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        **VALID,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "transforms": "a",
        "transforms.a.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.a.exclude": "card",
        "transforms.a.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "A.*",
    }
    assert not any("unknown" in line for line in said(caplog, config))
    [line] = [each for each in said(caplog, {**config, name: "1"}, ConfigNotices(derived=derived)) if "unknown" in each]
    assert line == f"Connector v: These properties are unknown and have no effect: {shown.format(name)}"


def test_a_predicate_that_no_transformation_names_is_told(caplog: pytest.LogCaptureFixture) -> None:
    config = {
        **VALID,
        "transforms": "a",
        "transforms.a.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.a.predicate": "p",
        "transforms.gone.predicate": "q",
        "predicates": "p, q",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
        "predicates.q.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    line = "Connector v: Without effect, as no transformation of transforms names them: predicates q"
    assert line in said(caplog, config)


@pytest.mark.parametrize(
    "name",
    [
        "groups",
        "emit.heartbeats.interval.seconds",
        "value.converter.schemas.enable",
        "consumer.poll.timeout.ms",
        "source.consumer.fetch.max.bytes",
        "producer.override.linger.ms",
        "target.cluster.sasl.jaas.config",
        "task.index",
    ],
)
def test_what_connect_or_mirror_maker_knows_is_not_named(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, {**VALID, name: "1"}) == []


def test_a_property_that_the_cluster_prefix_drops_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    [line] = said(caplog, {**VALID, "source.cluster.fetch.max.bytes": "1"})
    assert "Without effect, as their prefix does not take them: source.cluster.fetch.max.bytes" in line


def test_a_line_is_said_once_for_putting_and_starting(caplog: pytest.LogCaptureFixture) -> None:
    notices = ConfigNotices()
    first = said(caplog, {**VALID, "topcis": "1"}, notices)
    assert (len(first), said(caplog, {**VALID, "topcis": "1"}, notices)) == (1, [])


def test_a_line_is_said_again_when_it_was_gone_in_between(caplog: pytest.LogCaptureFixture) -> None:
    notices = ConfigNotices()
    said(caplog, {**VALID, "topcis": "1"}, notices)
    said(caplog, VALID, notices)
    assert len(said(caplog, {**VALID, "topcis": "1"}, notices)) == 1


def test_what_a_config_provider_gave_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    config = {**VALID, "offsets.storage.topic": "hunter2"}
    ConfigNotices().log_once("v", SOURCE, config, {**config, "offsets.storage.topic": "${file:/s:k}"})
    assert "offsets.storage.topic=[hidden] is not used" in caplog.text


def test_an_offsets_topic_of_ones_own_is_said_not_to_be_used(caplog: pytest.LogCaptureFixture) -> None:
    """In standalone mode, where Connect does not use it either."""
    [line] = said(caplog, {**VALID, "offsets.storage.topic": "mine"}, ConfigNotices())
    assert "offsets.storage.topic=mine is not used" in line


@pytest.mark.parametrize("topic", ["mine", "connect-offsets"])
def test_an_offsets_topic_is_nothing_to_speak_of_in_a_group(topic: str, caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, {**VALID, "offsets.storage.topic": topic}) == []


def test_names_that_come_from_a_checked_file_are_not_told_and_all_else_is(caplog: pytest.LogCaptureFixture) -> None:
    notices = ConfigNotices("connect-offsets", derived=True)
    names = {
        "source.cluster.offset.flush.interval.ms": "1",
        "target.cluster.client.id": "x",
        "security.protocol": "SSL",
    }
    assert said(caplog, {**VALID, **names}, notices) == []
    (line,) = said(caplog, {**VALID, **names, "errors.tolerance": "all"}, notices)
    assert "errors.tolerance: no effect" in line
