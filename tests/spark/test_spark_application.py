"""A worker's Spark application: a real local session and its real processes, with tasks that need no Kafka.

All tests share one application, in the order written; those that kill its JVM or driver stand at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from mirror_connect.app.supervisor import idleness, spark_keeper, task_reports, task_runs, task_watch
from mirror_connect.app.supervisor.preview_lookups import LookupRefused
from mirror_connect.app.supervisor.statement_reader import StatementReader
from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.sql_limits import MOST_NESTED
from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.records.asked_records import AskedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.spark_settings import ARCHIVE
from tests.fakes.spark_rig import FAKE_TASKS, SECRET, SparkRig, lives, spark_rig, wanted

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

A, B = TaskId("c", 0), TaskId("c", 1)
WORKER_SECRET = "only-for-the-worker"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(scratch: Path) -> AsyncIterator[SparkRig]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKE_TASKS))
        patch.setenv("DATABASE_PASSWORD", WORKER_SECRET)
        patch.setattr(tempfile, "tempdir", str(scratch))
        patch.setattr(spark_keeper, "BACK_OFF_S", (0.05,))
        async with spark_rig({"spark.master": "local[4,4]"}) as rig:
            yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def rig(shared: SparkRig) -> AsyncIterator[SparkRig]:
    shared.notices.lines.clear()
    shared.events.states.clear()
    yield shared
    shared.supervisor.want({})
    await shared.until(lambda: not list(shared.supervisor.runs), "every run has ended")


async def test_a_task_runs_and_says_what_it_writes_to(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    await rig.until(lambda: (A, "B.topic") in rig.events.topics, "the topic was told")
    # The first test finds Spark starting, and so its task waiting.
    assert set(rig.events.of(A)[:-1]) <= {"UNASSIGNED"}


async def test_its_driver_reads_statements_beside_its_tasks(rig: SparkRig, tmp_path: Path) -> None:
    async def asked(text: str) -> dict[str, Any]:
        return dict(await rig.spark.questions.ask("statement", TransformSql(text).to_json(), patience_s=200))

    assert await asked("SELECT upper(topic) AS key FROM records WHERE offset > 5") == {
        "columns": ["topic", "offset"],
        "changes": ["key"],
        "filters": True,
    }
    wrong = await asked("SELECT *\nFROM records ORDER BY key")
    assert (wrong["setting"], "(line 2, column 14)" in wrong["problem"]) == (SQL, True)
    # Deeper than a stack of the JVM, and as deep as a config may have it.
    assert "problem" in await asked(f"SELECT {'NOT ' * 4000}true AND true AS key FROM records")
    assert "problem" not in await asked(f"SELECT {'(' * MOST_NESTED}key{')' * MOST_NESTED} AS key FROM records")
    assert "problem" not in await asked("SELECT * FROM records")
    # Records, for a preview.
    sql = TransformSql("SELECT upper(topic) AS key FROM records WHERE offset > 5")
    record = [AskedRecord(TopicPartition("t", 0), offset, 0, rest_of(RecordParts(b"k", b"v"))) for offset in (5, 6)]
    reader = StatementReader(rig.spark.questions, rig.spark.preview_lookups, local=True)
    made = await reader.transformed(sql, record, {})
    assert [each.kept and parts_of(each.rest or b"") for each in made] == [False, RecordParts(b"T", b"v")]
    # With a lookup, whose rows a process of Spark's gets from the worker.
    file = tmp_path / "names.csv"
    file.write_text("id,name\n6,six\n")
    lookup = Lookup("names", "id INT, name STRING", str(file))
    sql = TransformSql("SELECT n.name AS key FROM records LEFT JOIN names n ON n.id = offset", lookups=(lookup,))
    made = await reader.transformed(sql, record, {"name": "c"})
    assert [parts_of(each.rest or b"").key for each in made] == [None, b"six"]
    file.unlink()
    with pytest.raises(LookupRefused, match="No such file"):
        await reader.transformed(sql, record, {"name": "c"})


async def test_its_jvm_maps_the_archive_of_classes_that_setup_made(rig: SparkRig) -> None:
    if not ARCHIVE.is_file():
        pytest.skip("no archive of Java's classes: `make setup` makes it")
    (java,) = [process for process in rig.tree() if process.name() == "java"]
    # Mapped and then closed again, if it didn't fit.
    assert str(ARCHIVE) in {region.path for region in java.memory_maps()}


async def test_its_tasks_have_the_daemon_of_the_first_job(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    (java,) = [process for process in rig.tree() if process.name() == "java"]
    (daemon,) = [process for process in java.children() if "mirror_connect.spark_jobs.daemon" in process.cmdline()]
    assert psutil.Process(rig.pid(A)).ppid() == daemon.pid


async def test_every_port_is_bound_to_loopback(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    listening = set()
    for process in rig.tree():
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
            connections = process.net_connections("inet")
            listening |= {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


async def test_no_secret_is_in_arguments_or_environments_or_files(rig: SparkRig, scratch: Path) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    texts = _texts(scratch)
    for process in rig.tree():
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
            texts += [*process.cmdline(), *process.environ().values()]
    secrets = (SECRET, WORKER_SECRET, rig.spark.copying.token, rig.run(A).token)
    assert [secret for secret in secrets if any(secret in text for text in texts)] == []


async def test_a_task_that_is_told_to_finish_returns_by_itself(rig: SparkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine a process may take as long as it is given to hear of it.
    monkeypatch.setattr(task_runs, "FINISH_PATIENCE_S", 60.0)
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    run = rig.run(A)
    rig.supervisor.want({})
    await rig.until(lambda: not list(rig.supervisor.runs), "it has ended")
    assert (run.killed, run.report and run.report.state) == (None, "FINISHED")


@pytest.mark.soak
async def test_a_partition_moves_between_running_tasks(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0", "t-1"), B: wanted("obedient", "u-0")})
    await rig.runs(A, B)
    before = rig.pid(A), rig.pid(B)
    rig.supervisor.want({A: wanted("obedient", "t-0"), B: wanted("obedient", "t-1", "u-0")})
    await rig.until(lambda: "assigned t-1,u-0" in rig.said(B), "it has moved")
    moved = rig.notices.lines
    assert moved.index("Task c-0: assigned t-0") < moved.index("Task c-1: assigned t-1,u-0")
    assert (rig.pid(A), rig.pid(B)) == before


async def test_a_task_that_raises_has_failed_and_its_secret_is_hidden(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("failing", "t-0")})
    await rig.until(lambda: rig.events.of(A)[-1:] == ["FAILED"], "it has failed")
    trace = rig.events.trace(A) or ""
    assert trace.splitlines()[0] == "ValueError: the answer is not [hidden]"
    assert SECRET not in trace + "".join(rig.notices.lines)


@pytest.mark.soak
async def test_a_task_whose_process_is_killed_runs_again_in_the_same_run(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    killed, run = rig.pid(A), rig.run(A)
    os.kill(killed, signal.SIGKILL)
    await rig.until(lambda: rig.is_running(A) and rig.pid(A) != killed, "another process runs")
    assert rig.run(A) is run


@pytest.mark.soak
async def test_a_task_that_hears_nothing_is_killed(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("deaf", "t-0")})
    await rig.until(lambda: bool(rig.run(A).pid), "it reports")
    deaf = psutil.Process(rig.pid(A))
    rig.supervisor.want({})
    await rig.until(lambda: not list(rig.supervisor.runs), "it has ended")
    assert not lives(deaf)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands still is told of and killed within seconds; a slow machine's pauses are shorter still."""
    for module in (idleness, task_reports):
        monkeypatch.setattr(module, "UNHEARD_S", 4.0)
    for module in (idleness, task_watch):
        monkeypatch.setattr(module, "TASK_SILENT_S", 8.0)


@pytest.mark.soak
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("kind", "line"), [("obedient", "has reported nothing since"), ("deaf", "reports, but has copied nothing since")]
)
async def test_a_process_that_stands_still_is_told_of_and_killed_and_the_task_runs_again(
    rig: SparkRig, kind: str, line: str
) -> None:
    rig.supervisor.want({A: wanted(kind, "t-0")})
    await rig.runs(A)
    before = psutil.Process(rig.pid(A))
    if kind == "obedient":
        before.suspend()
    await rig.until(lambda: rig.events.of(A)[-1] == "UNASSIGNED", "it is no longer told to run")
    told = rig.events.trace(A) or ""
    await rig.until(lambda: rig.is_running(A) and rig.pid(A) != before.pid, "another process runs")
    assert told.startswith(f"Its process {before.pid} {line} "), told
    assert (rig.events.of(A)[-1], lives(before)) == ("RUNNING", False)


@pytest.mark.soak
async def test_tasks_run_again_when_their_daemon_is_killed(rig: SparkRig) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    before = rig.pid(A)
    os.kill(psutil.Process(before).ppid(), signal.SIGKILL)
    await rig.until(lambda: rig.is_running(A) and rig.pid(A) != before, "another process runs")
    await rig.until(lambda: not psutil.pid_exists(before), "the orphan is gone")


@pytest.mark.soak
# tests/e2e/test_worker_life.py kills the JVM.
@pytest.mark.parametrize("part", [pytest.param(1, id="jvm", marks=pytest.mark.long), pytest.param(0, id="driver")])
async def test_what_is_killed_at_the_top_is_replaced_with_all_that_was_below(rig: SparkRig, part: int) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    tree = rig.tree()
    before = rig.pid(A)
    tree[part].kill()
    await rig.until(lambda: rig.is_running(A) and rig.pid(A) != before, "it runs on another application")
    first, *between, last = rig.events.of(A)
    # Why, then that it waits for Spark, and on a busy machine that its process is late.
    assert (first, set(between), len(between) >= 2, last) == ("RUNNING", {"UNASSIGNED"}, True, "RUNNING")
    assert "was ended by signal 9 (SIGKILL)" in (rig.events.states[1][2] or "")
    await rig.until(lambda: not any(lives(process) for process in tree), "nothing of the former one is left")


async def test_log_levels_reach_spark_and_a_running_task_and_outlive_a_restart(rig: SparkRig) -> None:
    ended, started = "An epoch of task c-0 has ended: FINISHED", "MicroBatchExecution: "

    def logged(text: str) -> bool:
        return any(text in line for line in rig.notices.lines)

    async def runs_and_ends() -> None:
        rig.supervisor.want({A: wanted("obedient", "t-0")})
        await rig.runs(A)
        # A task hears of levels in the answer to a report. It has that answer when it sends the next one.
        for _ in range(3):
            before = rig.run(A).report
            await rig.until(lambda before=before: rig.run(A).report is not before, "it reports again")
        rig.supervisor.want({})
        await rig.until(lambda: not list(rig.supervisor.runs), "it has ended")

    await runs_and_ends()
    assert not logged(started)
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    # Lines come a moment after reports: those of the first run would be here by now.
    assert not logged(ended)
    rig.spark.set_log_levels({"mirror_connect.spark_jobs": logging.DEBUG, "org.apache.spark": logging.INFO})
    await runs_and_ends()
    await rig.until(lambda: logged(ended), "the task that ran already logs more")
    await runs_and_ends()
    await rig.until(lambda: logged(started), "the JVM logs more")
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    before = rig.pid(A)
    rig.tree()[0].kill()
    await rig.until(lambda: rig.is_running(A) and rig.pid(A) != before, "it runs on another application")
    rig.notices.lines.clear()
    await runs_and_ends()
    await rig.until(lambda: logged(ended), "a task of the next application logs as much")
    await runs_and_ends()
    await rig.until(lambda: logged(started), "and so does its JVM")


async def test_the_end_of_the_pipe_ends_the_whole_tree_and_its_files(rig: SparkRig, scratch: Path) -> None:
    rig.supervisor.want({A: wanted("obedient", "t-0")})
    await rig.runs(A)
    # The application for statements, which another test has started, has its own.
    assert rig.application._scratch is not None
    tree, directory = rig.tree(), rig.application._scratch.path
    assert directory in _directories(scratch)
    pipe = rig.application._process
    assert pipe is not None
    assert pipe.stdin is not None
    pipe.stdin.close()
    await rig.until(lambda: not any(lives(process) for process in tree), "no process is left")
    await rig.until(lambda: not directory.exists(), "its directory is gone")


def _texts(directory: Path) -> list[str]:
    """What the files below it say."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):  # Spark removes and renames files all the time; sockets can't be read
                found.append(Path(folder, name).read_text(errors="replace"))
    return found


def _directories(directory: Path) -> list[Path]:
    return list(directory.iterdir())
