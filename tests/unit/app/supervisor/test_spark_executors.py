"""Executors of a cluster that come and go: slots, what the status and the log say."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.supervisor import spark_keeper
from mirror_connect.app.supervisor.spark_executors import MissingExecutor, SparkExecutor, named, no_executor_line
from mirror_connect.app.supervisor.spark_keeper import EXPECTED_S, unreachable
from mirror_connect.app.supervisor.task_watch import NO_SLOT_S
from tests.fakes.supervised import A, B, World, eventually, wanted

ONE = SparkExecutor("0", "a", 1)
TWO = SparkExecutor("1", "b", 1)


@pytest.fixture
async def cluster() -> AsyncIterator[World]:
    world = World("spark://m:7077")
    await world.start()
    await eventually(lambda: bool(world.applications))
    yield world
    await world.stop()


def _told(world: World, *executors: SparkExecutor) -> None:
    world.spark.driver_report(sum(each.slots for each in executors), {}, executors=executors)


async def test_without_an_executor_a_task_waits_with_one_line_until_one_comes(cluster: World) -> None:
    _told(cluster)
    cluster.supervisor.want({A: wanted("t-0")})
    cluster.later(NO_SLOT_S + 60)
    assert {trace for _, _, trace in cluster.events.states} == {cluster.spark.copying.absence}
    assert (cluster.spark.copying.absence or "").startswith("No executor of spark.master=spark://m:7077 since ")
    _told(cluster, ONE)
    assert cluster.spark.copying.absence is None
    await cluster.running(A)
    assert cluster.events.of(A)[-1] == "RUNNING"


async def test_slots_follow_the_executors(cluster: World) -> None:
    for executors in ((), (ONE,), (ONE, TWO), (TWO,)):
        _told(cluster, *executors)
        assert (cluster.spark.copying.slots, tuple(cluster.spark.copying.executors)) == (len(executors), executors)


async def test_too_few_slots_are_told_with_the_executors_that_have_them(cluster: World) -> None:
    _told(cluster, ONE)
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    await cluster.running(A)
    cluster.later(NO_SLOT_S + 1)
    assert cluster.events.trace(B) == (
        f"Task {B} has no Spark slot: 2 tasks want to run and spark.master=spark://m:7077 has 1 slot "
        "(executor 0 on a: 1 slot). Raise the slots or lower tasks.max."
    )
    _told(cluster, ONE, TWO)
    await cluster.running(B)
    assert cluster.events.of(B)[-1] == "RUNNING"


async def test_the_log_says_which_executors_there_are_when_they_change(
    cluster: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for executors in ((), (), (ONE,), (ONE,), (ONE, TWO), ()):
            _told(cluster, *executors)
    assert [line for line in caplog.messages if "executor" in line] == [
        "Spark is ready after 0.0 s: executors are expected",
        "Spark has 1 executor now: executor 0 on a: 1 slot",
        "Spark has 2 executors now: executor 0 on a: 1 slot, executor 1 on b: 1 slot",
        "Spark has no executor any more. Tasks wait for one",
    ]


async def test_the_log_warns_once_when_no_executor_comes(cluster: World, caplog: pytest.LogCaptureFixture) -> None:
    _told(cluster)
    cluster.later(EXPECTED_S - 1)
    _told(cluster)
    assert not [record for record in caplog.records if record.levelno == logging.WARNING]
    cluster.later(2)
    _told(cluster)
    _told(cluster)
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["Spark has no executor after 30 s. Tasks wait for one"]


async def test_the_next_application_begins_without_those_of_the_former(cluster: World) -> None:
    _told(cluster, ONE)
    cluster.application.die(1)
    await eventually(lambda: not cluster.spark.copying.executors)
    assert cluster.spark.copying.slots is None


def test_many_executors_are_counted_and_not_all_named() -> None:
    line = named([SparkExecutor(str(number), "h", 2) for number in range(10)])
    assert line.endswith("executor 7 on h: 2 slots, 2 more")


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        pytest.param(
            MissingExecutor("512m", "64", ((4, 2048), (8, 1024))),
            "spark.executor.cores=64 is too large: no Spark worker has more than 8.",
            id="more_cores_than_any_has",
        ),
        pytest.param(
            MissingExecutor("9g", "2", ((4, 2048), (8, 1024))),
            "An executor asks for spark.executor.cores=2 and spark.executor.memory=9g, and Spark workers have up to 8 cores "
            "and 2048 MiB.",
            id="perhaps_more_memory",
        ),
        pytest.param(
            MissingExecutor("512m", "", ((1, 1024),)),
            "An executor asks for spark.executor.memory=512m, and Spark workers have up to 1 core and 1024 MiB.",
            id="whatever_cores_there_are",
        ),
        pytest.param(MissingExecutor("512m", "2", ()), "The master has no Spark worker.", id="no_spark_worker"),
        pytest.param(
            MissingExecutor("512m", "2"),
            "An executor asks for spark.executor.cores=2 and spark.executor.memory=512m.",
            id="nobody_tells_of_workers",
        ),
    ],
)
async def test_the_line_names_what_an_executor_has_to_get(cluster: World, missing: MissingExecutor, says: str) -> None:
    cluster.spark.driver_report(0, {}, executors=[], missing=missing)
    line = cluster.spark.copying.absence or ""
    assert f": tasks wait for one. {says} Its page shows" in line
    assert all(len(sentence.split()) <= 25 for sentence in line.split(". "))
    _told(cluster, ONE)
    _told(cluster)
    assert says not in (cluster.spark.copying.absence or "")


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://m:6443", "local-cluster[1,1,1]"])
def test_who_has_no_executor_learns_where_to_look(master: str) -> None:
    line = no_executor_line(master, "05:00:00")
    assert line.startswith(f"No executor of spark.master={master} since 05:00:00: ")
    assert line.endswith(".")
    assert all(len(sentence.split()) <= 25 for sentence in line.split(". "))


async def test_a_master_that_refuses_connections_is_named_until_spark_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 0.01)
    monkeypatch.setattr(spark_keeper, "BACK_OFF_S", (0.01,))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await unreachable(f"spark://127.0.0.1:{port}") is None
    world = World(f"spark://127.0.0.1:{port}")
    await world.start()
    line = (
        f"spark.master=spark://127.0.0.1:{port} can't be reached: 127.0.0.1:{port} refuses connections. Start the master, "
        "or correct spark.master."
    )
    world.supervisor.want({A: wanted("t-0")})
    try:
        await eventually(lambda: world.supervisor.absence == line)
        # The task was there before the line.
        world.later(1)
        assert world.events.trace(A) == line
        # The next application begins with it, too.
        world.application.die(1)
        await eventually(lambda: len(world.applications) == 2)
        assert world.supervisor.absence == line
        _told(world, ONE)
        assert world.supervisor.absence is None
    finally:
        await world.stop()
    assert caplog.messages.count(line) == 1


async def test_a_task_that_has_lost_the_last_executor_says_so(cluster: World) -> None:
    _told(cluster, ONE)
    cluster.supervisor.want({A: wanted("t-0")})
    await cluster.running(A, executor=ONE.executor)
    _told(cluster)
    cluster.supervisor._runs.lose_attempt(cluster.run(A), "Spark has lost executor 0")
    for _ in range(int(NO_SLOT_S) + 1):
        cluster.later(1)
        # The driver tells twice a second that it has none.
        _told(cluster)
    assert cluster.events.trace(A) == cluster.spark.copying.absence
    assert (cluster.spark.copying.absence or "").startswith("No executor of spark.master=")


async def test_a_master_that_is_lost_is_named_when_no_executor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        world = World(f"spark://127.0.0.1:{port}")
        await world.start()
        await eventually(lambda: bool(world.applications))
        _told(world, ONE)
        world.supervisor.want({A: wanted("t-0")})
    try:
        # What runs needs no master.
        await asyncio.sleep(0.1)
        assert world.supervisor.absence is None
        _told(world)
        says = f"spark.master=spark://127.0.0.1:{port} can't be reached: "
        await eventually(lambda: (world.supervisor.absence or "").startswith(says))
        world.later(NO_SLOT_S + 1)
        assert world.events.trace(A) == world.supervisor.absence
        with socket.create_server(("127.0.0.1", port)):
            await eventually(lambda: (world.supervisor.absence or "").startswith("No executor of spark.master="))
        _told(world, ONE)
        assert world.supervisor.absence is None
    finally:
        await world.stop()
