"""The files of consumers and producers, also those that guides for older releases show."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.config.properties import UnreadableFile
from mirror_connect.app.mirror_maker.client_files import SourceFile, read_sources, read_target
from mirror_connect.connectors.errors import ConfigError

NEEDED = "bootstrap.servers=a:9092\ngroup.id=mm\n"


PROVIDER = "config.providers=f\nconfig.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"


def ignored(secrets: frozenset[str]) -> None: ...


def source(directory: Path, text: str) -> SourceFile:
    path = directory / "source.properties"
    path.write_text(text)
    return read_sources([str(path)], ignored)[0]


def test_a_consumers_file_has_mirrormakers_defaults(tmp_path: Path) -> None:
    found = source(tmp_path, NEEDED)
    assert (found.name, found.group_id, found.assignors) == ("source", "mm", ("range",))
    assert (found.session_timeout_ms, found.heartbeat_interval_ms) == (45_000, 3_000)
    assert (found.rebalance_timeout_ms, found.metadata_max_age_ms) == (300_000, 300_000)
    assert found.consumer["auto.offset.reset"] == "latest"


def test_a_start_at_the_end_is_named_unless_somebody_chose_it(tmp_path: Path) -> None:
    assert "auto.offset.reset is not set" in source(tmp_path, NEEDED).notices[0]
    assert source(tmp_path, f"{NEEDED}auto.offset.reset=latest\n").notices == ()


@pytest.mark.parametrize(("old", "new"), [("smallest", "earliest"), ("largest", "latest")])
def test_resets_of_old_consumers_are_understood(tmp_path: Path, old: str, new: str) -> None:
    assert source(tmp_path, f"{NEEDED}auto.offset.reset={old}\n").consumer["auto.offset.reset"] == new


def test_what_only_old_consumers_had_is_left_out_and_named_in_one_line(tmp_path: Path) -> None:
    text = f"{NEEDED}auto.offset.reset=earliest\nzookeeper.connect=z:2181\nsocket.buffersize=1\nmirror.topics.whitelist=a\n"
    found = source(tmp_path, text)
    assert "zookeeper.connect" not in found.consumer
    (line,) = found.notices
    assert line.endswith(": mirror.topics.whitelist, socket.buffersize, zookeeper.connect")


def test_internal_topics_are_not_copied_whatever_is_set(tmp_path: Path) -> None:
    (line,) = source(tmp_path, f"{NEEDED}auto.offset.reset=earliest\nexclude.internal.topics=false\n").notices
    assert "exclude.internal.topics=false has no effect" in line
    assert source(tmp_path, f"{NEEDED}auto.offset.reset=earliest\nexclude.internal.topics=true\n").notices == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("group.id=mm\n", r"set bootstrap\.servers$", id="no_address"),
        pytest.param("group.id=mm\nzookeeper.connect=z\n", r"in the place of zookeeper\.connect", id="zookeeper"),
        pytest.param("bootstrap.servers=a:1\n", r"set group\.id$", id="no_group"),
        pytest.param("bootstrap.servers=a:1\ngroupid=x\n", r"in the place of groupid=x", id="groupid_of_a_guide"),
        pytest.param(f"{NEEDED}session.timeout.ms=x\n", r"session\.timeout\.ms", id="no_number"),
        pytest.param(f"{NEEDED}auto.offset.reset=never\n", r"auto\.offset\.reset", id="no_reset"),
        pytest.param(f"{NEEDED}isolation.level=x\n", r"isolation\.level", id="no_level"),
        pytest.param(f"{NEEDED}partition.assignment.strategy=sticky\n", r"RangeAssignor", id="no_assignor"),
    ],
)
def test_a_consumers_file_that_cannot_be_used_is_refused_with_the_property(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        source(tmp_path, text)


def test_a_missing_file_is_named_with_its_option(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"--consumer\.config"):
        read_sources([str(tmp_path / "none.properties")], ignored)
    with pytest.raises(UnreadableFile, match=r"--producer\.config"):
        read_target(str(tmp_path / "none.properties"), ignored)


def test_several_sources_have_names_of_their_own(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / str(number) / "consumer.properties"
        path.parent.mkdir()
        path.write_text(NEEDED.replace("a:", f"a{number}:"))
        paths.append(str(path))
    assert [each.name for each in read_sources(paths, ignored)] == ["consumer", "consumer-2", "consumer-3"]


def test_one_group_of_one_cluster_is_no_two_sources(tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text(NEEDED)
    with pytest.raises(ConfigError, match=r"group\.id.*two --consumer\.config files"):
        read_sources([str(path), str(path)], ignored)


def test_a_producers_file_is_read_likewise(tmp_path: Path) -> None:
    path = tmp_path / "target.properties"
    path.write_text("bootstrap.servers=b:1\nacks=1\nblock.on.buffer.full=true\nproducer.type=sync\n")
    found = read_target(str(path), ignored)
    assert found.producer == {"bootstrap.servers": "b:1", "acks": "1"}
    assert found.notices[0].endswith(": block.on.buffer.full, producer.type")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("acks=all\n", r"set bootstrap\.servers$"),
        ("metadata.broker.list=b:1\n", r"in the place of metadata\.broker\.list"),
        ("bootstrap.servers=b:1\nmax.request.size=x\n", r"max\.request\.size"),
    ],
)
def test_a_producers_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "target.properties"
    path.write_text(text)
    with pytest.raises(ConfigError, match=named):
        read_target(str(path), ignored)


def test_logins_are_not_shown_by_repr(tmp_path: Path) -> None:
    assert "hunter2" not in repr(source(tmp_path, f"{NEEDED}sasl.jaas.config=x password='hunter2';\n"))


def test_values_of_config_providers_are_resolved_and_hidden(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("host=a:9092\n")
    found = source(tmp_path, f"group.id=mm\n{PROVIDER}bootstrap.servers=${{f:{tmp_path}/secrets:host}}\n")
    assert found.consumer["bootstrap.servers"] == "a:9092"
    assert "a:9092" in found.secrets
    assert not [name for name in found.consumer if name.startswith("config.")]


@pytest.mark.parametrize("setting", ["session.timeout.ms", "auto.offset.reset", "partition.assignment.strategy"])
def test_a_reference_to_the_wrong_secret_is_quoted_as_written_and_its_value_hidden(
    tmp_path: Path, setting: str
) -> None:
    (tmp_path / "secrets").write_text("password=hunter2\n")
    path, hidden = tmp_path / "wrong.properties", list[str]()
    reference = f"${{f:{tmp_path}/secrets:password}}"
    path.write_text(f"{NEEDED}{PROVIDER}{setting}={reference}\n")
    with pytest.raises(ConfigError) as refused:
        read_sources([str(path)], hidden.extend)
    assert reference in str(refused.value)
    assert "hunter2" not in f"{refused.value}{refused.value.value}"
    assert "hunter2" in hidden


def test_a_targets_reference_to_the_wrong_secret_is_quoted_as_written_and_its_value_hidden(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=hunter2\n")
    path, hidden = tmp_path / "wrong.properties", list[str]()
    reference = f"${{f:{tmp_path}/secrets:password}}"
    path.write_text(f"bootstrap.servers=b:1\n{PROVIDER}max.request.size={reference}\n")
    with pytest.raises(ConfigError) as refused:
        read_target(str(path), hidden.extend)
    assert reference in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" in hidden
