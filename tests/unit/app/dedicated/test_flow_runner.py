"""A flow in memory: tried again until it is up, and its connectors configured by the node that leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast

import pytest

from mirror_connect.app.dedicated import flow_runner
from mirror_connect.app.dedicated.flow_runner import FlowRunner
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.errors import BadRequest, InvalidConfig, NotLeader
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.steps import STEP_PATIENCE_S
from mirror_connect.app.storage.config_view import Change, ConnectorUpdated
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from tests.fakes.simulated_time import run_simulated
from tests.waiting import state_reached

SOURCE = "MirrorSourceConnector"
WANTED = {name: {"name": name, "topics": "t"} for name in (SOURCE, "MirrorHeartbeatConnector")}
FLOW = Flow("A", "B", True, {}, WANTED)
Config = Mapping[str, str]


class Cluster:
    """What all nodes of a flow see: stored configs; `problems` are those of the next starts."""

    def __init__(self) -> None:
        self.stored: dict[str, Config] = {}
        self.writes: list[str] = []
        self.problems: list[Exception] = []
        self.refusals: list[Exception] = []
        self.workers: list[FakeWorker] = []


class FakeWorker:
    """A worker with its herder, leadership and config store in one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.term: int | None = None
        self.leader: str | None = None
        self.ended: list[str] = []
        self._moved: list[Callable[[], None]] = []
        self._changed: list[Callable[[Change], None]] = []
        self.herder = self.leadership = self
        self.configs = _Configs(self)
        cluster.workers.append(self)

    async def start(self, answers: Callable[[], Awaitable[None]], tell: Callable[[Exception], None]) -> None:
        await answers()
        if self.cluster.problems:
            problem = self.cluster.problems.pop(0)
            if isinstance(problem, ClusterUnreachable):
                # At once, and then it is raised after a minute.
                tell(problem)
            raise ExceptionGroup("together", [problem])

    def add_listener(self, moved: Callable[[], None]) -> None:
        self._moved.append(moved)

    def move(self, term: int | None, leader: str | None = None) -> None:
        self.term, self.leader = term, leader
        for moved in self._moved:
            moved()

    def store(self, name: str, config: Config) -> None:
        """Whoever writes it."""
        self.cluster.stored[name] = config
        for changed in self.configs.listeners:
            changed(ConnectorUpdated(name))

    def measured(self) -> None:
        return None

    async def secrets(self) -> frozenset[str]:
        return frozenset({"s"})

    async def end_tasks(self) -> None:
        self.ended.append("tasks")

    async def leave(self) -> None:
        self.ended.append("leave")

    async def close(self) -> None:
        self.ended.append("close")


class _Configs:
    """Both the config store and the herder's writes."""

    def __init__(self, worker: FakeWorker) -> None:
        self._worker = worker
        self.listeners: list[Callable[[Change], None]] = []

    @property
    def connectors(self) -> Mapping[str, Config]:
        return dict(self._worker.cluster.stored)

    def snapshot(self) -> _Configs:
        return self

    def add_listener(self, listener: Callable[[Change], None]) -> None:
        self.listeners.append(listener)

    async def put(self, name: str, config: Config) -> None:
        if self._worker.cluster.refusals:
            raise self._worker.cluster.refusals.pop(0)
        self._worker.cluster.writes.append(name)
        self._worker.store(name, config)

    async def delete(self, name: str) -> None:
        del self._worker.cluster.stored[name]


class Node:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.settled = 0
        self.runner = FlowRunner(
            FLOW,
            cast("Any", None),
            spark=cast("Any", None),
            start_spark=self._start_spark,
            settled=self._settle,
            worker_id="me/A->B",
            url="http://me/A/B",
            path="mm2.properties",
            metrics=WorkerMetrics(),
        )
        self.construction_problems: list[Exception] = []
        self.runner._new_worker = self._new_worker  # type: ignore[method-assign, assignment]

    def _new_worker(self) -> FakeWorker:
        if self.construction_problems:
            raise self.construction_problems.pop(0)
        return FakeWorker(self.cluster)

    async def _start_spark(self) -> None: ...

    def _settle(self) -> None:
        self.settled += 1

    @property
    def worker(self) -> FakeWorker:
        return self.cluster.workers[-1]

    async def up(self) -> FakeWorker:
        self.runner.start()
        await until(lambda: self.runner.up and bool(self.worker._moved))
        return self.worker


async def until(condition: Callable[[], bool]) -> None:
    await state_reached(condition, "it is so", 20, 0.002)


@pytest.fixture
async def node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(flow_runner, "RETRY_S", 0.01)
    monkeypatch.setattr(flow_runner, "SETTLED_S", 0.01)
    made = Node(Cluster())
    yield made
    await made.runner.end_tasks()


async def test_a_connector_that_only_an_earlier_file_had_is_removed(node: Node) -> None:
    worker = await node.up()
    worker.store("MirrorCheckpointConnector", {"name": "MirrorCheckpointConnector"})
    worker.store("of-a-user", {"name": "of-a-user"})
    worker.move(1)
    await until(lambda: set(node.cluster.stored) == {*FLOW.connectors, "of-a-user"})


async def test_a_flow_that_cannot_start_is_ended_and_tried_again_and_told_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.cluster.problems = [ClusterUnreachable("B is away"), ClusterUnreachable("B is away"), KeyError("a bug")]
    await node.up()
    assert [worker.ended for worker in node.cluster.workers] == [["tasks", "leave", "close"]] * 3 + [[]]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [line.split(";")[0].split(".")[0] for line in told] == [
        "The flow is not up: B is away",
        "The flow is not up because of an unexpected error",
    ]
    assert (node.settled, node.runner.problem) == (4, None)


async def test_a_flow_that_stays_away_is_told_again_after_ten_minutes_though_its_problems_alternate(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tries = iter(range(10_000))
    # A try takes a minute and tells twice, and for 30 of them two of the cluster's brokers are away.
    node.runner._clock = lambda: 30.0 * next(tries)
    node.cluster.problems = [ClusterUnreachable(f"{broker} is away") for broker in ("B-1", "B-2")] * 15
    node.cluster.problems += [KeyError("a bug"), KeyError("a bug")]
    await node.up()
    told = [
        record.getMessage().split(": ")[-1].split(".")[0]
        for record in caplog.records
        if record.levelno >= logging.ERROR
    ]
    away = [line for line in told if "away" in line]
    assert away == ["B-1 is away", "B-2 is away"] * 3
    assert len(told) == len(away) + 1
    assert [record.getMessage()[:14] for record in caplog.records if record.levelno == logging.INFO] == [
        "The flow is up"
    ]


async def test_a_flow_whose_key_store_is_away_for_a_moment_is_tried_again(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.cluster.problems = [ClusterUnreachable("B is away")]
    node.construction_problems = [ConfigError("ssl.keystore.location", "b.p12", "it can't be read")]
    await node.up()
    assert [worker.ended for worker in node.cluster.workers] == [["tasks", "leave", "close"], []]
    assert ("ssl.keystore.location" in caplog.text, node.settled) == (True, 3)


def test_a_start_that_does_not_end_delays_the_end_of_no_other_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(self: FakeWorker, *_: object) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        await asyncio.sleep(1000)

    async def run() -> tuple[float, list[str]]:
        node = Node(Cluster())
        node.runner.start()
        await asyncio.sleep(1)
        await node.runner.end_tasks()
        return asyncio.get_running_loop().time() - 1, node.worker.ended

    monkeypatch.setattr(FakeWorker, "start", start)
    assert run_simulated(run()) == (STEP_PATIENCE_S, ["tasks"])


async def test_the_problem_of_a_flow_is_the_first_one_of_its_steps(node: Node) -> None:
    node.cluster.problems = [ClusterUnreachable("B is away")] * 1000
    node.runner.start()
    await until(lambda: node.runner.problem is not None)
    assert (node.runner.up, str(node.runner.problem)) == (False, "B is away")


async def test_the_end_has_its_steps(node: Node) -> None:
    worker = await node.up()
    await node.runner.end_tasks()
    await node.runner.leave()
    await node.runner.close()
    assert worker.ended == ["tasks", "leave", "close"]


async def test_the_leader_writes_what_differs_and_nothing_else(node: Node) -> None:
    worker = await node.up()
    node.cluster.stored = {SOURCE: WANTED[SOURCE]}
    worker.move(1)
    await until(lambda: node.cluster.stored == WANTED)
    assert node.cluster.writes == ["MirrorHeartbeatConnector"]


async def test_a_standby_writes_nothing_and_says_once_whose_config_is_in_force(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await node.up()
    node.cluster.stored = {**WANTED, SOURCE: {**WANTED[SOURCE], "topics": "u"}}
    worker.move(None, "http://other/A/B")
    await until(lambda: "The config of the leader (http://other/A/B) is in force" in caplog.text)
    worker.store(SOURCE, {**WANTED[SOURCE], "topics": "u"})
    await asyncio.sleep(0.1)
    assert (caplog.text.count("is in force"), node.cluster.writes) == (1, [])


async def test_a_difference_that_comes_later_is_told_too(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    worker = await node.up()
    node.cluster.stored = dict(WANTED)
    worker.move(None, "http://other/A/B")
    await asyncio.sleep(0.1)
    before = caplog.text.count("is in force")
    worker.store(SOURCE, {**WANTED[SOURCE], "topics": "u"})
    await until(lambda: caplog.text.count("is in force") == 1)
    assert before == 0


async def test_a_leader_configures_once_in_a_term_so_that_others_are_not_fought(node: Node) -> None:
    worker = await node.up()
    worker.move(1)
    await until(lambda: node.cluster.stored == WANTED)
    worker.store(SOURCE, {**WANTED[SOURCE], "topics": "by somebody"})
    await asyncio.sleep(0.1)
    by_somebody = dict(node.cluster.stored)
    worker.move(2)
    await until(lambda: node.cluster.stored == WANTED)
    assert by_somebody[SOURCE]["topics"] == "by somebody"


@pytest.mark.parametrize(
    ("refusal", "errors"),
    [(NotLeader(None), 0), (BadRequest("no"), 1), (InvalidConfig(["no", "nor this"]), 1)],
)
async def test_a_config_that_was_refused_is_tried_again(
    node: Node, refusal: Exception, errors: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.cluster.refusals = [refusal]
    worker = await node.up()
    worker.move(1)
    await until(lambda: node.cluster.stored == WANTED)
    assert sorted(node.cluster.writes) == sorted(WANTED)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * errors
    # That one belongs to the answers of REST.
    assert "connector-plugins" not in caplog.text


async def test_a_refused_connector_keeps_none_of_the_others_out_and_is_told_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await node.up()
    tries = 0

    async def put(name: str, config: Config) -> None:
        nonlocal tries
        if name == SOURCE:
            tries += 1
            raise ConfigError("topic.filter.class", "com.acme.Filter", "there is no such class")
        worker.store(name, config)

    worker.configs.put = put  # type: ignore[method-assign]
    worker.move(1)
    await until(lambda: tries > 2)
    assert list(node.cluster.stored) == ["MirrorHeartbeatConnector"]
    assert caplog.text.count("com.acme.Filter") == 1


async def test_a_flow_that_goes_on_after_a_bug_hears_of_each_change_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs = [KeyError("a bug"), KeyError("another")]
    compare = FlowRunner._compare

    def with_bugs(self: FlowRunner, worker: Any) -> None:
        if bugs:
            raise bugs.pop()
        compare(self, worker)

    monkeypatch.setattr(FlowRunner, "_compare", with_bugs)
    worker = await node.up()
    worker.move(None, "http://other/A/B")
    await until(lambda: not bugs)
    await asyncio.sleep(0.1)
    assert (len(worker._moved), len(worker.configs.listeners)) == (1, 1)
