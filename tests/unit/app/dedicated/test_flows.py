"""Flows as plain values: what texts show of them."""

from __future__ import annotations

from mirror_connect.app.dedicated.flows import Flow, Mm2Config

PASSWORD = "geheim"
FLOW = Flow("A", "B", True, {"sasl.jaas.config": PASSWORD}, {"MirrorSourceConnector": {"source.cluster.x": PASSWORD}})


def test_a_flow_is_named_as_in_its_file() -> None:
    assert FLOW.name == "A->B"


def test_no_property_is_shown() -> None:
    config = Mm2Config("mm2.properties", ("A", "B"), (FLOW,), {"listeners.https.ssl.key.password": PASSWORD}, False)

    assert PASSWORD not in repr(FLOW) + repr(config)
