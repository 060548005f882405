"""The link of a query: from a config, from files, from a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror_connect.query import link_options
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES, Answers
from mirror_connect.query.link_options import (
    link_of_config,
    link_of_files,
    link_of_options,
    only_source,
    source_configs,
)

CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "source.consumer.isolation.level": "read_committed",
}


def test_a_config_has_both_clusters_and_mirrormakers_topics() -> None:
    link = link_of_config("m", CONFIG, {})
    assert link.client("source")["bootstrap.servers"] == "a:9092"
    assert link.client("target")["bootstrap.servers"] == "b:9092"
    assert (link.committed("source"), link.committed("target")) == (True, False)
    assert (link.ranges_topic, link.checkpoints_topic) == ("mm2-offset-runs.A.internal", "A.checkpoints.internal")


def test_a_connector_that_transforms_can_be_asked() -> None:
    assert link_of_config("m", {**CONFIG, "transforms": "x"}, {}).client("source")


def test_the_isolation_level_that_is_asked_for_counts() -> None:
    link = link_of_config("m", CONFIG, {}, isolation="read_uncommitted")
    assert not link.committed("source")
    assert link_of_config("m", CONFIG, {}, isolation="read_committed").committed("target")


def test_an_unknown_side_is_an_error_only_for_who_reads_it() -> None:
    config = {name: value for name, value in CONFIG.items() if not name.startswith("target.")}
    link = link_of_config("m", {**config, "source.cluster.sasl.jaas.config": "${file:/s:jaas}"}, {})
    with pytest.raises(QueryError, match="writes to the cluster of its worker"):
        link.client("target")
    with pytest.raises(QueryError, match=r"a config provider of the worker holds sasl.jaas.config"):
        link.client("source")
    given = {"source": {"bootstrap.servers": "c:9092"}}
    assert link_of_config("m", config, given).client("source")["bootstrap.servers"] == "c:9092"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"connector.class": "MirrorHeartbeatConnector"}, "connector m is a MirrorHeartbeatConnector, which copies no"),
        ({}, "connector m is a connector without a class"),
        ({**CONFIG, "replication.policy.class": "Nobodys"}, "Invalid value Nobodys"),
    ],
)
def test_a_config_of_no_link_is_refused(config: dict[str, str], line: str) -> None:
    with pytest.raises(QueryError, match=f"^{line}"):
        link_of_config("m", config, {})


def test_files_make_a_link_whose_internal_topics_need_an_alias() -> None:
    given = {"target": {"bootstrap.servers": "b:9092"}}
    link = link_of_files(given, None)
    assert (link.ranges_topic, link.checkpoints_topic, link.connector) == (None, None, None)
    assert link_of_files(given, "A").checkpoints_topic == "A.checkpoints.internal"
    with pytest.raises(QueryError, match="the source cluster is not known"):
        link.client("source")


def test_options_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text("bootstrap.servers=a:9092\nsasl.jaas.config=TOP-SECRET\n")
    link = link_of_options({"source.properties": str(path), "isolation.level": "read_committed"})
    assert link.client("source")["sasl.jaas.config"] == "TOP-SECRET"
    assert link.committed("source")
    assert "TOP-SECRET" not in repr(link)
    with pytest.raises(QueryError, match="Could not read the target cluster's properties /nowhere"):
        link_of_options({"target.properties": "/nowhere"})
    with pytest.raises(QueryError, match=r"^isolation\.level serializable: give"):
        link_of_options({"isolation.level": "serializable"})
    with pytest.raises(QueryError, match=r"^connector m: give worker too"):
        link_of_options({"connector": "m"})


def _worker(monkeypatch: pytest.MonkeyPatch, bodies: dict[str, Any]) -> None:
    monkeypatch.setattr(link_options, "Worker", lambda _url, _login: Answers(bodies))


def test_the_one_source_connector_of_a_worker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "m": {"info": {"config": CONFIG}},
        "h": {"info": {"config": {"connector.class": "MirrorHeartbeatConnector"}}},
    }
    _worker(monkeypatch, {STATUSES: listed, "/connectors/m/config": CONFIG})
    link = link_of_options({"worker": "http://w"})
    assert (link.connector, link.source_alias) == ("m", "A")
    with pytest.raises(QueryError, match=r"has no connector x$"):
        link_of_options({"worker": "http://w", "connector": "x"})
    assert source_configs(listed) == {"m": CONFIG}


def test_none_and_several_of_them_are_told() -> None:
    with pytest.raises(QueryError, match="has no MirrorSourceConnector"):
        only_source({}, "http://w")
    with pytest.raises(QueryError, match="has 7 MirrorSourceConnectors: name one of c0, c1, c2, c3, c4 and 2 more"):
        only_source({f"c{number}": {} for number in range(7)}, "http://w")


def test_a_login_needs_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRROR_CONNECT_PASSWORD", raising=False)
    with pytest.raises(QueryError, match="no password of ann: set MIRROR_CONNECT_PASSWORD"):
        link_of_options({"worker": "http://w", "user": "ann"})
