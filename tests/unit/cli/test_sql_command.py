"""The arguments of `mirror-connect sql`, and where it finds clusters. Queries are in tests/spark/query/test_command.py."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.cli.commands import COMMANDS
from mirror_connect.cli.rest.arguments import Parser, add_connection
from mirror_connect.cli.rest.failures import WrongUsage
from mirror_connect.cli.rest.worker_client import WorkerClient
from mirror_connect.cli.sql_command import (
    Interrupted,
    _asks_worker,
    _bounds,
    _lines,
    _link,
    _write_parquet,
    arguments,
    main,
)
from mirror_connect.query.errors import QueryError
from mirror_connect.query.results import Column
from tests.fakes.worker_rest import worker_that_answers

CONFIG = {
    "name": "m",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
LIST = "/connectors?expand=info"


def parser() -> Parser:
    found = Parser("sql")
    arguments(found)
    add_connection(found)
    return found


def chosen(*given: str) -> argparse.Namespace:
    return parser().parse_intermixed_args(["SELECT 1", *given])


def test_the_help_lists_its_options() -> None:
    names = {name for action in parser()._actions for name in action.option_strings if name.startswith("--")}
    assert {f"--{each.name}" for each in COMMANDS["sql"].options} == names | {"--help"}


@pytest.mark.parametrize(
    ("option", "name", "value"),
    [
        (("--max-bytes", "500MB"), "max_bytes", 500_000_000),
        (("--max-bytes", "1048576"), "max_bytes", 1 << 20),
        (("--max-bytes", "2GiB"), "max_bytes", 2 << 30),
        (("--max-bytes", "0"), "max_bytes", 0),
        (("--timeout", "90s"), "timeout", 90.0),
        (("--timeout", "0"), "timeout", 0.0),
        (("--memory", "4G"), "memory", "4g"),
        (("--rows", "0"), "rows", 0),
        ((), "max_bytes", 1 << 30),
        ((), "timeout", 600.0),
    ],
)
def test_limits(option: tuple[str, ...], name: str, value: object) -> None:
    assert getattr(chosen(*option), name) == value


@pytest.mark.parametrize(
    "option",
    [
        ("--max-bytes", "much"),
        ("--timeout", "soon"),
        ("--memory", "1"),
        ("--memory", "511m"),
        ("--rows", "-1"),
        ("-o", "xml"),
        ("--nope",),
    ],
)
def test_wrong_options_are_named(option: tuple[str, ...]) -> None:
    with pytest.raises(WrongUsage, match=option[-1]):
        chosen(*option)


def test_times_become_those_of_one_moment() -> None:
    found = _bounds(chosen("--last", "1h", "--until", "2026-11-21T08:00:00Z", "--from-offset", "5"))
    assert found.keys() == {"from", "until", "from.offset"}
    assert found["until"] == "1795248000000"
    assert int(found["from"]) > 1_700_000_000_000
    assert _bounds(chosen()) == {}
    with pytest.raises(QueryError, match="last or from, not both"):
        _bounds(chosen("--last", "1h", "--from", "5"))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("SELECT 1", "-o", "parquet"), "-o parquet writes files: give --to DIRECTORY"),
        (("SELECT 1", "--to", "/tmp/x"), "-o parquet writes files: give --to DIRECTORY"),
        (("SELECT 1", "-o", "parquet", "--to", "/"), "--to / is there already: name a new directory"),
        (("SELECT 1", "--last", "soon"), "last soon is no length of time"),
        (("SELECT 1", "--source", "/nowhere", "--last", ""), "Could not read the source cluster's properties /nowhere"),
        ((), "the following arguments are required: STATEMENT"),
    ],
)
def test_wrong_usage_is_one_line(
    given: tuple[str, ...], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # No JVM is started for it.
    monkeypatch.setattr("mirror_connect.query.session.start_jvm", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["mirror-connect sql", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (2, 1)
    assert line in told


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        ((), True),
        (("--connector", "m", "--source", "s"), True),
        (("--worker", "http://w", "--source", "s"), True),
        (("--source", "s"), False),
        (("--target", "t"), False),
        (("--config", "c"), False),
    ],
)
def test_a_worker_is_asked_only_where_nothing_else_tells_the_clusters(given: tuple[str, ...], asks: bool) -> None:
    assert _asks_worker(chosen(*given)) is asks


@pytest.fixture
def worker() -> Iterator[WorkerClient]:
    info = {"m": {"info": {"config": CONFIG}}, "other": {"info": {"config": {"connector.class": "Foreign"}}}}
    with (
        worker_that_answers({LIST: info, "/connectors/m/config": CONFIG}) as there,
        WorkerClient(there.url) as client,
    ):
        yield client


def test_the_worker_tells_the_link(worker: WorkerClient, tmp_path: Path) -> None:
    link = _link(chosen(), worker)
    assert (link.connector, link.client("source")["bootstrap.servers"]) == ("m", "a:9092")
    path = tmp_path / "s.properties"
    path.write_text("bootstrap.servers=c:9092\n")
    link = _link(chosen("--connector", "m", "--source", str(path)), worker)
    assert link.client("source")["bootstrap.servers"] == "c:9092"
    assert link.client("target")["bootstrap.servers"] == "b:9092"


def test_of_several_source_connectors_one_has_to_be_named_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[object] = []
    monkeypatch.setattr("mirror_connect.query.session.start_jvm", lambda *given: started.append(given))
    several = {name: {"info": {"config": CONFIG}} for name in ("m", "n")}
    with worker_that_answers({LIST: several}) as there:
        monkeypatch.setattr(sys, "argv", ["mirror-connect sql", "SELECT 1", "--worker", there.url])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code, started) == (2, [])
    assert "has 2 MirrorSourceConnectors: name one of m, n by --connector" in capsys.readouterr().err


def test_a_connectors_file_tells_the_link(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"name": "m", "config": CONFIG}))
    link = _link(chosen("--config", str(path), "--isolation-level", "read_committed"), None)
    assert (link.connector, link.committed("source")) == ("m", True)
    with pytest.raises(WrongUsage, match="--connector or --config, not both"):
        _link(chosen("--config", str(path), "--connector", "m"), None)


def test_files_of_properties_tell_the_link(tmp_path: Path) -> None:
    path = tmp_path / "t.properties"
    path.write_text("bootstrap.servers=c:9092\n")
    link = _link(chosen("--target", str(path), "--source-alias", "A"), None)
    assert (link.client("target")["bootstrap.servers"], link.checkpoints_topic) == ("c:9092", "A.checkpoints.internal")


class _Result:
    columns = (Column("n", "long"),)

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def first_rows(self, most: int, *, named: bool) -> list[str]:
        return self.stored_rows(named=named)[:most]

    def stored_rows(self, *, named: bool) -> list[str]:
        return [json.dumps({"n" if named else "0": number}) for number in range(self._rows)]


@pytest.mark.parametrize(
    ("output", "most", "expected"),
    [
        ("json", 2, (['{"n": 0}', '{"n": 1}'], True)),
        ("json", 0, (['{"n": 0}', '{"n": 1}', '{"n": 2}'], False)),
        ("csv", 3, (["n", "0", "1", "2"], False)),
        ("table", 1, (["n", "0"], True)),
    ],
)
def test_rows_above_the_limit_are_left_out(output: str, most: int, expected: Any) -> None:
    lines, more = _lines(_Result(3), output, most)
    assert (list(lines), more) == expected


class _Spark:
    kills = 0

    def kill(self) -> None:
        self.kills += 1


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt()), (signal.SIGTERM, SystemExit(143))], ids=str
)
def test_the_first_signal_ends_the_command_and_others_are_ignored(number: int, raised: BaseException) -> None:
    spark: Any = _Spark()
    interrupted = Interrupted(spark)
    interrupted.leave()
    with pytest.raises(type(raised)) as ended:
        interrupted(number, None)
    assert ended.value.args == raised.args
    interrupted(signal.SIGINT, None)
    assert spark.kills == 1


def test_a_hangup_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    handled = {signal.SIGINT: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    monkeypatch.setattr(signal, "getsignal", handled.get)
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    spark: Any = _Spark()
    interrupted = Interrupted(spark)
    interrupted.listen()
    assert handled == {signal.SIGINT: interrupted, signal.SIGTERM: interrupted, signal.SIGHUP: signal.SIG_IGN}
    interrupted.ignore()
    assert set(handled.values()) == {signal.SIG_IGN}
    interrupted.give_back()
    assert handled[signal.SIGINT] == signal.SIG_DFL


@pytest.mark.parametrize("fails", [False, True])
def test_parquet_files_appear_when_they_are_whole(tmp_path: Path, fails: bool) -> None:
    to = tmp_path / "out"

    class Written:
        def write_parquet(self, directory: str, most: int) -> None:
            assert not to.exists()
            Path(directory).mkdir()
            Path(directory, "part-0").write_text(str(most))
            if fails:
                raise QueryError("too large")

    if fails:
        with pytest.raises(QueryError, match="too large"):
            _write_parquet(Written(), str(to), 5)
    else:
        _write_parquet(Written(), str(to), 5)
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == ([] if fails else ["out", "out/part-0"])
