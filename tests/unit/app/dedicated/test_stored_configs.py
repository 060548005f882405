"""A node with another file than the leader's is named, with the properties that differ and without their values."""

from __future__ import annotations

from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.stored_configs import (
    different_connectors,
    leading_line,
    standby_line,
    superfluous_connectors,
)

PASSWORD = "geheim-wie-nie"
SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
WANTED = {
    name: {"name": name, "topics": "t", "target.cluster.sasl.jaas.config": PASSWORD} for name in (SOURCE, CHECKPOINT)
}
FLOW = Flow("A", "B", True, {}, WANTED)
OTHER = {**WANTED, SOURCE: {"name": SOURCE, "topics": "u", "tasks.max": "2"}}


def test_what_is_not_stored_or_has_another_value_differs() -> None:
    assert different_connectors(FLOW, WANTED) == {}
    assert different_connectors(FLOW, {SOURCE: WANTED[SOURCE]}) == {CHECKPOINT: frozenset(WANTED[CHECKPOINT])}
    names = frozenset({"topics", "tasks.max", "target.cluster.sasl.jaas.config"})
    assert different_connectors(FLOW, OTHER) == {SOURCE: names}


def test_a_stored_connector_that_the_flow_does_not_have_any_more_is_superfluous() -> None:
    flow = Flow("A", "B", True, {}, {SOURCE: WANTED[SOURCE]})
    assert superfluous_connectors(flow, {**WANTED, "of-a-user": {}}) == [CHECKPOINT]
    assert superfluous_connectors(FLOW, WANTED) == []


def test_a_property_without_a_value_is_as_if_it_were_absent() -> None:
    assert different_connectors(FLOW, {**WANTED, SOURCE: {**WANTED[SOURCE], "groups": None}}) == {}


def test_the_lines_name_flow_properties_and_whose_config_is_in_force() -> None:
    names = "target.cluster.sasl.jaas.config, tasks.max, topics"
    assert leading_line(FLOW, OTHER, "host/A->B/1") == (
        f"Flow A->B: another file configured the stored connectors, with other values of {names}. This node (host/A->B/1) "
        "leads the group: the config of its file is in force now. Give all nodes the same file"
    )
    assert standby_line(FLOW, OTHER, "http://host:1/A/B", "mm2.properties") == (
        f"Flow A->B: mm2.properties of this node has other values of {names} than the connectors that run. The config of "
        "the leader (http://host:1/A/B) is in force. Give all nodes the same file"
    )


def test_no_line_has_a_value() -> None:
    lines = (leading_line(FLOW, OTHER, "n"), standby_line(FLOW, OTHER, "n", "f"))
    assert [PASSWORD in (line or PASSWORD) for line in lines] == [False, False]


def test_nothing_is_said_of_the_first_start_or_of_equal_files() -> None:
    assert leading_line(FLOW, {}, "n") is None
    assert leading_line(FLOW, WANTED, "n") is None
    assert standby_line(FLOW, WANTED, "n", "f") is None


def test_many_names_are_a_number() -> None:
    stored = {**WANTED, SOURCE: {**WANTED[SOURCE], **{f"p{number:02}": "x" for number in range(20)}}}
    assert "p00, p01, p02, p03, p04, p05, p06, p07, p08, p09, p10, p11 and 8 more." in (
        leading_line(FLOW, stored, "n") or ""
    )
