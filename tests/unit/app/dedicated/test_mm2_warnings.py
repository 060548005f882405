"""What has no effect in an mm2.properties file, or probably another one than meant, is a warning with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_connect.app.dedicated.findings import FindingCode
from mirror_connect.app.dedicated.mm2_file import findings
from tests.paths import ROOT
from tests.unit.app.dedicated.mm2_files import BROKERS, IDENTITY, ONE_FLOW, shown, written

FORMER = "a name of earlier releases of Kafka, so it has no effect"
NO_CHECKPOINTS = "no checkpoints are written and no group offsets synced: MirrorMaker refuses the connector, too"
OF_TOPIC = "it is taken for a setting of the topic, which brokers refuse if they do not know it"


@pytest.mark.parametrize(
    ("added", "text"),
    [
        ("emit.heartbeat.enabled=true", "unknown property, it has no effect; did you mean emit.heartbeats.enabled?"),
        ("A->B.topic=x", "unknown property, it has no effect; did you mean A->B.topics?"),
        ("sync.topic.acl.enabled=false", "unknown property, it has no effect; did you mean sync.topic.acls.enabled?"),
        ("tasks.maximum=2", "unknown property, it has no effect; did you mean tasks.max?"),
        ("A->B.emit.heartbeats=x", "unknown property, it has no effect; did you mean A->B.emit.heartbeats.enabled?"),
        ("B->A.enable=true", "unknown property, it has no effect; did you mean B->A.enabled?"),
        ("topics.blacklist=x", f"{FORMER}; write topics.exclude"),
        ("B.topics.blacklist=x", f"{FORMER}; write topics.exclude"),
        ("A->B.groups.blacklist=x", f"{FORMER}; write A->B.groups.exclude"),
        ("config.properties.blacklist=x", f"{FORMER}; write config.properties.exclude"),
        ("rest.port=1", f"{FORMER}; write listeners"),
        ("B.rest.host.name=x", f"{FORMER}; write listeners"),
        (
            "A.consumer.isolation.levels=x",
            "unknown property, it has no effect; did you mean A.consumer.isolation.level?",
        ),
        ("zzz=1", "unknown property, it has no effect"),
        ("offset.storage.partitons=3", f"{OF_TOPIC}; did you mean offset.storage.partitions?"),
        ("B.status.storage.replication.facto=3", f"{OF_TOPIC}; did you mean B.status.storage.replication.factor?"),
        ("use.defaults.from=source", "it has no effect at the top level; write A->B.use.defaults.from"),
        ("producer.acks=1", "it has no effect at the top level; write B.producer.acks"),
        ("offset.flush.interval.ms=1", "it has no effect at the top level; write B.offset.flush.interval.ms"),
        ("target.cluster.sasl.mechanism=x", "it has no effect at the top level; write B.sasl.mechanism"),
        ("B.topics=x", "it has no effect for a cluster; write A->B.topics, or topics for all flows"),
        ("A.isolation.level=read_committed", "it has no effect for a cluster; write A.consumer.isolation.level"),
        ("A->B.linger.ms=5", "it has no effect for a flow; write A->B.producer.override.linger.ms"),
        ("A->B.offset.flush.interval.ms=5", "it has no effect for a flow; write B.offset.flush.interval.ms"),
        ("B.listeners=http://:8083", "it has no effect for a cluster; write listeners"),
        (
            "B.spark.transform.sql=x",
            "it has no effect for a cluster; write A->B.spark.transform.sql, or spark.transform.sql for all flows",
        ),
        ("B.spark.driver.memory=1g", "it has no effect for a cluster; write spark.driver.memory"),
        ("A->B.plugin.path=/x", "it has no effect for a flow; write plugin.path"),
        ("a.producer.acks=1", "it has no effect, because a is not in clusters; did you mean A.producer.acks?"),
        ("A->B.enabled=true", "it is set on line 4, too, and only the last one counts; take out the others"),
        ("emit.checkpoints.enabled=false", f"{NO_CHECKPOINTS}; leave it out to have them"),
        ("A->B.emit.offset-syncs.enabled=false", f"{NO_CHECKPOINTS}; leave it out to have them"),
        (
            "topics=a # all",
            "a # behind a value begins no comment, so it is part of the last entry, which matches nothing; "
            "put the comment on a line of its own",
        ),
        (
            "A.client.id=${no:x}",
            "the reference ${no:…} stays as text: there is no config provider no; name the provider in config.providers",
        ),
    ],
)
def test_what_has_no_effect_is_a_warning_with_the_likely_name_and_its_line(
    tmp_path: Path, added: str, text: str
) -> None:
    assert shown(tmp_path, f"{ONE_FLOW}{added}\n") == [f"WARNING :5: {added}: {text}"]


def test_a_secret_of_a_statement_belongs_to_a_flow(tmp_path: Path) -> None:
    known = "A->B.spark.transform.sql=SELECT * FROM records\nA->B.spark.transform.secret.pepper=x\n"
    known += "A->B.spark.transform.lookup.r=/r.csv\nA->B.spark.transform.lookup.r.schema=id INT\n"
    known += "spark.transform.lookup.allowed.paths=/\n"
    assert shown(tmp_path, ONE_FLOW + known) == []
    text = "it has no effect at the top level; write A->B.spark.transform.secret.pepper"
    assert shown(tmp_path, f"{ONE_FLOW}spark.transform.secret.pepper=x\n") == [
        f"WARNING :5: spark.transform.secret.pepper: {text}"
    ]


def test_where_files_of_lookups_may_be_belongs_to_the_process(tmp_path: Path) -> None:
    name = "spark.transform.lookup.allowed.paths"
    for place in ("A->B.", "B."):
        found = findings(written(tmp_path, f"{ONE_FLOW}{place}{name}=/\n"))
        assert [each.remedy for each in found if each.code is FindingCode.NAME_WITHOUT_EFFECT] == [f"write {name}"]


@pytest.mark.parametrize(
    ("source", "added", "line"),
    [
        pytest.param(
            "us.east",
            "",
            "WARNING :1: clusters=us.east,B: the separator “.” is in the name of the cluster us.east, so its copies on B "
            "are taken for those of “us” and may be copied back; {remedy}",
            id="a_separator_in_a_clusters_name",
        ),
        pytest.param(
            "east",
            "replication.policy.separator=\n",
            "WARNING :6: replication.policy.separator=: without a separator, so its copies on B are taken for those of “e” "
            "and may be copied back; {remedy}",
            id="no_separator_behind_a_long_name",
        ),
        pytest.param("e", "replication.policy.separator=\n", None, id="no_separator_behind_one_letter"),
        pytest.param("us.east", "replication.policy.separator=_\n", None, id="another_separator"),
        pytest.param("us.east", IDENTITY + "B->us.east.topics=b.*\nus.east->B.topics=a.*\n", None, id="no_prefix"),
    ],
)
def test_copies_that_the_flow_back_would_not_recognize_are_a_warning(
    tmp_path: Path, source: str, added: str, line: str | None
) -> None:
    text = (
        f"clusters={source},B\n{source}.bootstrap.servers=e:1\nB.bootstrap.servers=b:1\n"
        f"{source}->B.enabled=true\nB->{source}.enabled=true\n{added}"
    )
    remedy = f"give {source} another name, or choose another separator, before the first start"
    assert shown(tmp_path, text) == ([] if line is None else [line.format(remedy=remedy)])


def test_a_broker_of_both_clusters_is_a_warning(tmp_path: Path) -> None:
    text = "clusters=A,B\nA.bootstrap.servers=a:1, x:1\nB.bootstrap.servers=x:1\nA->B.enabled=true\n"
    assert shown(tmp_path, text) == [
        "WARNING :3: B.bootstrap.servers=x:1: A and B have the same broker x:1: if they are one cluster, A->B copies its "
        "own copies again and again; correct the bootstrap.servers of A or B, or name the topics in topics"
    ]


def test_a_cluster_listed_twice_is_a_warning_as_mirror_maker_runs_it(tmp_path: Path) -> None:
    lines = shown(tmp_path, ONE_FLOW.replace("A,B", "A,B,A"))
    assert lines == ["WARNING :1: clusters=A,B,A: A is listed twice; name each cluster once"]


def test_a_file_with_no_flow_but_heartbeats_runs_with_a_warning(tmp_path: Path) -> None:
    lines = shown(tmp_path, f"clusters=A,B\n{BROKERS}")
    expected = "no flow is enabled, so only heartbeats are written; set A->B.enabled = true to copy topics"
    assert lines == [f"WARNING :1: clusters=A,B: {expected}"]


def test_a_config_topic_of_several_flows_is_a_warning(tmp_path: Path) -> None:
    text = f"clusters=A,B,C\n{BROKERS}C.bootstrap.servers=c:1\nA->C.enabled=true\nB->C.enabled=true\n"
    lines = shown(tmp_path, f"{text}C.config.storage.topic=mine\nemit.heartbeats.enabled=false\n")
    assert lines == [
        "WARNING :7: C.config.storage.topic=mine: the workers of A->C, B->C share the topic mine on C; "
        "leave it out: each overwrites the connectors of the others, which have the same names"
    ]


def test_brokers_of_a_cluster_that_only_beats_are_not_needed(tmp_path: Path) -> None:
    text = "clusters=A,B\nB.bootstrap.servers=b:1\n"
    assert [each.code for each in findings(written(tmp_path, text), ["B"])] == [FindingCode.ONLY_HEARTBEATS]


# MirrorMaker takes these behind a flow alone.
OF_FLOWS_ALONE = {"topic.creation.groups", "exactly.once.support", "offsets.storage.topic"}


@pytest.mark.parametrize("place", ["", "A->B."], ids=["all_flows", "one_flow"])
@pytest.mark.parametrize("connector", ["Source", "Checkpoint", "Heartbeat"])
def test_each_property_of_a_connector_has_an_effect_at_the_top_level_and_behind_a_flow(
    tmp_path: Path, connector: str, place: str
) -> None:
    recorded = json.loads(
        (ROOT / "tests" / "fixtures" / f"validate-Mirror{connector}Connector.json").read_text("utf-8")
    )
    names = {each["name"] for each in recorded["definitions"]}
    kept = {name for name in names if place or not (name in OF_FLOWS_ALONE or name.startswith("transaction.boundary"))}
    assert len(kept) > 20
    text = ONE_FLOW + "".join(f"{place}{name}=\n" for name in sorted(kept))
    found = [each.name for each in findings(written(tmp_path, text)) if each.code in NAMES]
    assert found == []


NAMES = (FindingCode.NAME_UNKNOWN, FindingCode.NAME_WITHOUT_EFFECT)
