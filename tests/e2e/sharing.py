"""Three workers of one group that share connectors, and what is asked of them while something happens to one of them."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

import httpx
import pytest

from deploy.local import LocalCluster, free_port
from deploy.local.far_link import FarLink
from tests.brokers import commit, messages, started
from tests.e2e.committed_reader import CommittedReader
from tests.e2e.ends import end_offsets
from tests.e2e.hammer import Answer, Hammer
from tests.e2e.numbered import Writer
from tests.e2e.product import PATIENCE_S, Product, mirror_config
from tests.e2e.reading import CONTROL, batches
from tests.waiting import wait_for, wait_for_state

GROUP: Final = "sharing"
PARTITIONS: Final = 4
RATE: Final = 100
SESSION_S: Final = 10.0
# What a takeover may take beyond the session where three workers and their tasks share two slow cores with other tests.
BUSY_S: Final = 270.0
LOADED_S: Final = 2.0
LINKED: Final = "LINKED"
# Each worker has its own way to the clusters.
SOURCE: Final = "${env:SOURCE}"
TARGET: Final = "${env:TARGET}"
READERS: Final = "readers"
PROPERTIES: Final = {
    "session.timeout.ms": str(int(SESSION_S * 1000)),
    "heartbeat.interval.ms": "3000",
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
CHECKPOINTS: Final = {
    "connector_class": "MirrorCheckpointConnector",
    "groups": READERS,
    "refresh_groups_interval_seconds": "1",
    "emit_checkpoints_interval_seconds": "1",
    "checkpoints_topic_replication_factor": "1",
}
HEARTBEATS: Final = {"connector_class": "MirrorHeartbeatConnector", "heartbeats_topic_replication_factor": "1"}
# What these two write on the target.
OWN_TOPICS: Final = ("A.checkpoints.internal", "heartbeats")
_RUNS: Final = re.compile(r'^mirror_connect_task_silent_seconds\{.*connector="([^"]*)".*task="([^"]*)"', re.MULTILINE)

Shown = tuple[str, str]


@dataclass(frozen=True)
class Plan:
    """What is shared. `sources`: source connectors with their numbers of tasks; each copies the topic of its name.

    `others`: whether a checkpoint and a heartbeat connector come to them.
    """

    sources: Mapping[str, int]
    others: bool = False
    exactly_once: bool = False
    busy_s: float = BUSY_S

    @property
    def patience_s(self) -> float:
        """What a takeover may take."""
        return SESSION_S + self.busy_s

    @property
    def tasks(self) -> dict[str, int]:
        """All connectors with their numbers of tasks."""
        return {**self.sources, **({"checkpoints": 1, "beats": 1} if self.others else {})}


@contextlib.contextmanager
def linked_listener(cluster: LocalCluster) -> Iterator[FarLink]:
    """One more listener of the cluster's one broker, which has not been started: who comes by it can be cut off."""
    broker, near = cluster.brokers[0], free_port()
    with FarLink(near, 0.0) as link:
        ports = {name: broker.port(name) for name in ("PLAINTEXT", "INTERNAL", "CONTROLLER")}
        urls = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
        broker.properties |= {
            "listeners": ",".join([*urls.values(), f"{LINKED}://127.0.0.1:{near}"]),
            "advertised.listeners": ",".join(
                [urls["PLAINTEXT"], urls["INTERNAL"], f"{LINKED}://127.0.0.1:{link.port}"]
            ),
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,{LINKED}:PLAINTEXT"
            ),
        }
        yield link


@dataclass
class Sharing:
    """The group. `links`: the last worker's ways to the source and the target."""

    source: LocalCluster
    target: LocalCluster
    workers: list[Product]
    links: tuple[FarLink, FarLink]
    plan: Plan
    reader: CommittedReader | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: LocalCluster, target: LocalCluster, links: tuple[FarLink, FarLink], plan: Plan) -> Self:
        """Workers that were not started."""
        near = source.bootstrap_servers, target.bootstrap_servers
        far = f"127.0.0.1:{links[0].port}", f"127.0.0.1:{links[1].port}"
        return cls(source, target, [_worker(target, way, plan) for way in (near, near, far)], links, plan)

    def start(self) -> None:
        """Starts the workers at once, and the connectors at the first of them."""
        for worker in self.workers:
            worker.launch()
        for worker in self.workers:
            wait_for_state(partial(answers, worker), "the worker answers", PATIENCE_S)
        for name, tasks in self.plan.sources.items():
            self.source.create_topic(name, PARTITIONS)
            self.workers[0].put(name, self.config(name, tasks_max=str(tasks), **self._once()))
        if self.plan.others:
            commit(self.source, READERS, next(iter(self.plan.sources)), 0, partitions=range(PARTITIONS))
            self.workers[0].put("checkpoints", self.config("numbers.*", **CHECKPOINTS))
            self.workers[0].put("beats", self.config(**HEARTBEATS))
        self.wait_shared(self.workers)

    def config(self, topics: str = "none", **settings: str) -> dict[str, str]:
        """A config that each worker can read; `settings` as of mirror_config."""
        ways = {"source.cluster.bootstrap.servers": SOURCE, "target.cluster.bootstrap.servers": TARGET}
        return {**mirror_config(self.source, self.target, topics, **settings), **ways}

    def _once(self) -> dict[str, str]:
        if not self.plan.exactly_once:
            return {}
        return {
            "exactly_once_support": "required",
            "source_consumer_isolation_level": "read_committed",
            "transaction_boundary": "interval",
            "transaction_boundary_interval_ms": "500",
        }

    def leader(self) -> Product:
        """The worker that leads, by its own account."""

        def found() -> Product | None:
            return next((each for each in self.workers if each.process.poll() is None and leads(each)), None)

        leader: Product = wait_for_state(found, "a worker leads")
        return leader

    def follower(self) -> Product:
        """The first that does not."""
        leader = self.leader()
        return next(each for each in self.workers if each is not leader)

    # Who runs what.

    def statuses(self, worker: Product) -> dict[str, Shown]:
        """State and worker of each connector and task, as this worker has them."""
        found: dict[str, Shown] = {}
        try:
            answer = worker.rest.get("/connectors", params={"expand": "status"})
        except httpx.HTTPError:  # it has just been started, or it is suspended
            return found
        for name, shown in answer.json().items() if answer.is_success else ():
            if name in self.plan.tasks:
                status = shown["status"]
                found[name] = status["connector"]["state"], status["connector"]["worker_id"]
                for task in status["tasks"]:
                    found[f"{name}-{task['id']}"] = task["state"], task["worker_id"]
        return found

    def wait_shared(self, among: Collection[Product], seconds: float = PATIENCE_S) -> None:
        """Waits until all runs on these workers, in equal shares, and each of them says the same."""

        def shared() -> bool:
            told = [self.statuses(worker) for worker in among]
            return all(each == told[0] for each in told) and self._is_shared(told[0], {_id(each) for each in among})

        shown = partial(self.statuses, next(iter(among)))
        try:
            wait_for(shared, "all runs once, in equal shares", seconds, 0.3, arrived=shown)
        except AssertionError as error:
            raise AssertionError(f"{error}: {[self.statuses(worker) for worker in among]}") from None

    def _is_shared(self, statuses: Mapping[str, Shown], among: Collection[str]) -> bool:
        asked = sum(self.plan.tasks.values()) + len(self.plan.tasks)
        if len(statuses) != asked or any(state != "RUNNING" for state, _ in statuses.values()):
            return False
        tasks = Counter(worker for name, (_, worker) in statuses.items() if "-" in name)
        counts = [tasks[each] for each in among]
        return {worker for _, worker in statuses.values()} <= set(among) and max(counts) - min(counts) <= 1

    def look_at_shares(self) -> None:
        """AssertionError unless all workers tell of the same equal shares, and each one has exactly its own tasks."""
        told = [worker.call("GET", "/admin/workers")["workers"] for worker in self.workers]
        shares = [
            {each["worker_id"]: (sorted(each["connectors"]), sorted(map(_task, each["tasks"]))) for each in shown}
            for shown in told
        ]
        assert shares[1:] == shares[:-1], f"the workers disagree: {shares}"
        assert set(shares[0]) == set(map(_id, self.workers))
        for kind in (0, 1):
            given = Counter(each for share in shares[0].values() for each in share[kind])
            assert set(given.values()) <= {1}, f"given twice: {given}"
            counts = [len(share[kind]) for share in shares[0].values()]
            assert max(counts) - min(counts) <= 1, f"unequal shares: {shares[0]}"
        asked = {f"{name}-{number}" for name, count in self.plan.tasks.items() for number in range(count)}
        assert asked <= {each for share in shares[0].values() for each in share[1]}
        for worker in self.workers:
            own = {f"{name}-{number}" for name, number in _RUNS.findall(worker.rest.get("/metrics").text)}
            assert own == set(shares[0][_id(worker)][1]), f"{worker.port} runs {own}"

    # What is copied.

    @contextlib.contextmanager
    def written(self) -> Iterator[list[Writer]]:
        """Numbers are written to all topics meanwhile. Records of an earlier test are there already."""
        if self.reader is not None:
            self.reader.expect_from_zero()
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(Writer(self.source, each, PARTITIONS, RATE)) for each in self.plan.sources]

    def look_at_copies(self, writers: list[Writer]) -> str:
        """AssertionError unless all is there in order, by one writer after the other; a line about it."""
        if self.reader is not None:
            counts = {
                (f"A.{topic}", partition): count
                for topic, writer in zip(self.plan.sources, writers, strict=True)
                for partition, count in writer.counts.items()
            }
            reader = self.reader
            wait_for(
                lambda: reader.has_all(counts), "all is there", PATIENCE_S, 0.5, arrived=lambda: dict(reader.following)
            )
            time.sleep(LOADED_S)  # what is there once more comes after that
            assert not reader.wrong, reader.wrong[:10]
            assert reader.following == counts
            line = f"{sum(counts.values())} once, longest silence {max(reader.longest_s.values()):.1f} s"
        else:
            wait_for(self._have_arrived, "every record has arrived", PATIENCE_S, 0.5, arrived=lambda: None)
            line = "{} of {} repeated".format(*self._repeats())
        places = [(f"A.{topic}", partition) for topic in self.plan.sources for partition in range(PARTITIONS)]
        for place in places + [(topic, 0) for topic in OWN_TOPICS if self.plan.others]:
            look_at_writers(self.target, *place)
        return line

    def _have_arrived(self) -> bool:
        """Whether the copies are as long as the sources, at least."""
        for topic in self.plan.sources:
            wanted, there = end_offsets(self.source, topic), end_offsets(self.target, f"A.{topic}")
            if any(there.get(partition, 0) < end for partition, end in wanted.items()):
                return False
        return True

    def _repeats(self) -> tuple[int, int]:
        """How many records came again, of how many. AssertionError unless all are there in order."""
        records = repeated = 0
        for topic in self.plan.sources:
            for partition in range(PARTITIONS):
                wanted = [message.value() for message in messages(self.source, topic, partition)]
                there = [message.value() for message in messages(self.target, f"A.{topic}", partition)]
                records += len(wanted)
                repeated += _repeated(f"A.{topic}-{partition}", wanted, there)
        return repeated, records


@contextlib.contextmanager
def three_workers(name: str, plan: Plan) -> Iterator[Sharing]:
    """Clusters and workers, with connectors that run."""
    source, target = LocalCluster(f"{name}-source"), LocalCluster(f"{name}-target")
    with linked_listener(source) as first, linked_listener(target) as second, started(source, target):
        sharing = Sharing.of(source, target, (first, second), plan)
        try:
            sharing.start()
            with contextlib.ExitStack() as stack:
                if plan.exactly_once:
                    places = [(f"A.{topic}", partition) for topic in plan.sources for partition in range(PARTITIONS)]
                    sharing.reader = stack.enter_context(CommittedReader(target, places))
                yield sharing
        finally:
            for worker in sharing.workers:
                worker.close()


def survives(sharing: Sharing, blow: Callable[[Sharing], Product], capsys: pytest.CaptureFixture[str]) -> None:
    """Strikes while records and requests flow, and looks at what came of it. All workers live and share in the end.

    `blow` strikes, and puts everything back; it returns the worker that it has struck.
    """
    patience = sharing.plan.patience_s
    with Hammer(sharing.workers, list(sharing.plan.tasks), sharing.config()) as hammer, sharing.written() as writers:
        time.sleep(LOADED_S)
        begun = time.monotonic()
        struck = sharing.workers.index(blow(sharing))
        hammer.restarts = False
        over = time.monotonic()
        sharing.wait_shared(sharing.workers, patience)
        shared = time.monotonic()
        time.sleep(LOADED_S)
    line = sharing.look_at_copies(writers)
    hammer.look()
    sharing.wait_shared(sharing.workers, patience)
    sharing.look_at_shares()

    def blameless(answer: Answer) -> bool:
        # A request that had reached a leader when that was struck has no other answer, as in Connect.
        return begun <= answer.at <= shared and (answer.method != "GET" or answer.worker == struck)

    with capsys.disabled():
        print(
            f" [struck for {over - begun:.1f} s, shared again after {shared - over:.1f} s, {line}; "
            f"before {hammer.codes(0, begun)}, during {hammer.codes(begun, shared)}, after {hammer.codes(shared, 1e18)}; "
            f"longest answer {max(each.took for each in hammer.answers):.1f} s; "
            f"refused: {sorted({(each.code, each.text) for each in hammer.answers if each.code >= 400})[:8]}]",
            end="",
        )
    failures = hammer.failures(blameless)
    assert not failures, failures[:5]


def _worker(target: LocalCluster, ways: tuple[str, str], plan: Plan) -> Product:
    clients = {f"{who}bootstrap.servers": ways[1] for who in ("", "producer.", "consumer.", "admin.")}
    once = {"exactly.once.source.support": "enabled"} if plan.exactly_once else {}
    environment = {"SOURCE": ways[0], "TARGET": ways[1]}
    return Product(target, group=GROUP, properties={**PROPERTIES, **once, **clients}, environment=environment)


def look_at_writers(cluster: LocalCluster, topic: str, partition: int) -> None:
    """Who has a successor never writes again, and no epoch of a producer id comes behind a newer one."""
    newest: dict[int, int] = {}
    former: set[tuple[int, int]] = set()
    last: tuple[int, int] | None = None
    for batch in batches(cluster, topic, partition):
        where = f"{topic}-{partition}, offset {batch.base_offset}"
        producer, epoch = batch.producer
        assert epoch >= newest.get(producer, epoch), f"{where}: {batch.producer} wrote behind epoch {newest[producer]}"
        newest[producer] = epoch
        if batch.attributes & CONTROL or batch.producer == last:
            continue
        assert batch.producer not in former, f"{where}: {batch.producer} wrote behind its successor"
        if last is not None:
            former.add(last)
        last = batch.producer


def _repeated(copy: str, wanted: list[Any], there: list[Any]) -> int:
    """How many records came again. AssertionError if one was left out, also if only for a while."""
    at, seen = 0, set()
    for value in there:
        if at < len(wanted) and value == wanted[at]:
            at += 1
            seen.add(value)
        else:
            assert value in seen, f"{copy}: {value!r} came before {wanted[at : at + 1]}"
    assert at == len(wanted), f"{copy} ends before {wanted[at]!r}"
    return len(there) - at


def _id(worker: Product) -> str:
    return f"127.0.0.1:{worker.port}"


def _task(shown: Mapping[str, Any]) -> str:
    return f"{shown['connector']}-{shown['task']}"


def answers(worker: Product) -> bool:
    """Whether its herder does."""
    worker.check_alive()
    with contextlib.suppress(httpx.HTTPError):
        return worker.rest.get("/connectors").status_code == httpx.codes.OK
    return False


def leads(worker: Product) -> bool:
    """Whether the last that its log says of the leadership is that it leads."""
    lines = [line for line in worker.log_text().splitlines() if "leads its group" in line or "no longer leads" in line]
    return bool(lines) and "leads its group" in lines[-1]


def tasks_and_spark(log: str) -> list[int | str]:
    """What a start has said in this order: how many tasks the worker runs, and that Spark is "ready"."""
    start = log[log.rindex("Spark is starting") :]
    lines = re.findall(r"Spark is (ready)|runs \d+ connectors? and (\d+) tasks?", start)
    return [ready or int(tasks) for ready, tasks in lines]
