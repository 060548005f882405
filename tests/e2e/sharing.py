"""Three workers of one group that share connectors, and what is asked of them while something happens to one of them."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

import httpx
import pytest

from deploy.local import LocalCluster, free_port
from deploy.local.far_link import FarLink
from tests.brokers import messages, started
from tests.e2e.ends import end_offsets
from tests.e2e.numbered import Writer
from tests.e2e.product import PATIENCE_S, WORKER, Product, mirror_config
from tests.e2e.reading import batches
from tests.waiting import wait_for, wait_for_state

TASKS: Final = 2
PARTITIONS: Final = 4
RATE: Final = 100
SESSION_S: Final = 10.0
# What a takeover may take beyond the session where three workers and their tasks share two cores with other tests.
BUSY_S: Final = 90.0
LOADED_S: Final = 2.0
LINKED: Final = "LINKED"
# Each worker has its own way to the target.
TARGET: Final = "${env:TARGET}"
PROPERTIES: Final = {
    "session.timeout.ms": str(int(SESSION_S * 1000)),
    "heartbeat.interval.ms": "3000",
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


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
    """The group. `link`: the last worker's way to the target. `topics`: one for each connector, which has its name."""

    source: LocalCluster
    target: LocalCluster
    workers: list[Product]
    link: FarLink
    connectors: int
    topics: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, source: LocalCluster, target: LocalCluster, link: FarLink, connectors: int) -> Self:
        """Workers that were not started."""
        near, far = target.bootstrap_servers, f"127.0.0.1:{link.port}"
        return cls(source, target, [_worker(target, address) for address in (near, near, far)], link, connectors)

    def start(self) -> None:
        """Starts the workers at once, and the connectors at the first of them."""
        for worker in self.workers:
            worker.launch()
        for worker in self.workers:
            wait_for_state(partial(answers, worker), "the worker answers", PATIENCE_S)
        for number in range(self.connectors):
            name = f"numbers{number}"
            self.source.create_topic(name, PARTITIONS)
            config = mirror_config(self.source, self.target, name, tasks_max=str(TASKS))
            self.workers[0].put(name, {**config, "target.cluster.bootstrap.servers": TARGET})
            self.topics.append(name)
        self.wait_shared()

    def alive(self) -> list[Product]:
        """The workers whose process lives."""
        return [worker for worker in self.workers if worker.process.poll() is None]

    def leader(self) -> Product:
        """The worker that leads, by its own account."""
        return next(each for each in self.alive() if leads(each))

    def statuses(self, worker: Product) -> dict[str, tuple[str, str]]:
        """State and worker of each connector and task, as this worker has them."""
        found: dict[str, tuple[str, str]] = {}
        try:
            answer = worker.rest.get("/connectors", params={"expand": "status"})
        except httpx.HTTPError:  # it has just been started, or it is suspended
            return found
        for name, shown in answer.json().items() if answer.is_success else ():
            status = shown["status"]
            if name in self.topics:
                found[name] = status["connector"]["state"], status["connector"]["worker_id"]
                for task in status["tasks"]:
                    found[f"{name}-{task['id']}"] = task["state"], task["worker_id"]
        return found

    def wait_shared(self, seconds: float = PATIENCE_S) -> None:
        """Waits until all runs on the workers that live, in equal shares, and all of these say the same."""
        alive = {f"127.0.0.1:{worker.port}" for worker in self.alive()}

        def shared() -> bool:
            told = [self.statuses(worker) for worker in self.alive()]
            return all(each == told[0] for each in told) and self._is_shared(told[0], alive)

        wait_for(shared, "all runs once, in equal shares", seconds, 0.3, arrived=lambda: self.statuses(self.alive()[0]))

    def _is_shared(self, statuses: Mapping[str, tuple[str, str]], alive: set[str]) -> bool:
        subjects = self.connectors * (TASKS + 1)
        if len(statuses) != subjects or any(state != "RUNNING" for state, _ in statuses.values()):
            return False
        where = [worker for _, worker in statuses.values()]
        tasks = [worker for name, (_, worker) in statuses.items() if "-" in name]
        most = -(-self.connectors * TASKS // len(alive)) + 1
        return set(where) <= alive and max(tasks.count(each) for each in alive) <= most

    # --- what is copied ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def written(self) -> Iterator[list[Writer]]:
        """Numbers are written to all topics meanwhile. Records of an earlier test are there already."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(Writer(self.source, each, PARTITIONS, RATE)) for each in self.topics]

    def all_arrived(self) -> bool:
        """Whether the copies are as long as the sources, at least."""
        for topic in self.topics:
            wanted, there = end_offsets(self.source, topic), end_offsets(self.target, f"A.{topic}")
            if any(there.get(partition, 0) < end for partition, end in wanted.items()):
                return False
        return True

    def look_at_copies(self, seconds: float = PATIENCE_S) -> tuple[int, int]:
        """AssertionError unless all is there in order, by one writer after the other; how many records, and repeats."""
        wait_for(self.all_arrived, "every record has arrived", seconds, 0.5, arrived=lambda: None)
        records = repeated = 0
        for topic in self.topics:
            for partition in range(PARTITIONS):
                wanted = [message.value() for message in messages(self.source, topic, partition)]
                there = [message.value() for message in messages(self.target, f"A.{topic}", partition)]
                records += len(wanted)
                repeated += _repeated(f"A.{topic}-{partition}", wanted, there)
                self._look_at_writers(f"A.{topic}", partition)
        return records, repeated

    def _look_at_writers(self, copy: str, partition: int) -> None:
        """Who has a successor never writes again."""
        former: set[tuple[int, int]] = set()
        last: tuple[int, int] | None = None
        for batch in batches(self.target, copy, partition):
            if batch.producer != last:
                assert batch.producer not in former, f"{copy}-{partition}: {batch.producer} wrote behind its successor"
                if last is not None:
                    former.add(last)
                last = batch.producer


@contextlib.contextmanager
def three_workers(name: str, connectors: int) -> Iterator[Sharing]:
    """Clusters and workers, with so many connectors of two tasks each, that run."""
    source, target = LocalCluster(f"{name}-source"), LocalCluster(f"{name}-target")
    with linked_listener(target) as link, started(source, target):
        sharing = Sharing.of(source, target, link, connectors)
        try:
            sharing.start()
            yield sharing
        finally:
            for worker in sharing.workers:
                worker.close()


def survives(sharing: Sharing, blow: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Strikes while records and requests flow, and looks at what came of it. All workers live and share in the end."""
    with Hammer(sharing) as hammer, sharing.written():
        time.sleep(LOADED_S)
        begun = time.monotonic()
        blow()
        struck = time.monotonic()
        sharing.wait_shared(SESSION_S + BUSY_S)
        shared = time.monotonic()
        time.sleep(LOADED_S)
    records, repeated = sharing.look_at_copies()
    hammer.look()
    with capsys.disabled():
        print(
            f" [{struck - begun:.1f} s, shared again after {shared - struck:.1f} s, {repeated} of {records} repeated, "
            f"{hammer.codes}, {sorted(set(hammer.refused))[:3]}]",
            end="",
        )


def killed(sharing: Sharing, worker: Product) -> None:
    """Kills it, waits until the others run all, and starts it again."""
    worker.kill(WORKER)
    sharing.wait_shared(SESSION_S + BUSY_S)
    worker.launch()


def cut(sharing: Sharing) -> None:
    """The last worker gets through to no broker, for longer than its session."""
    sharing.link.is_cut = True
    time.sleep(SESSION_S + 4.0)
    sharing.link.is_cut = False


def _worker(target: LocalCluster, address: str) -> Product:
    clients = {f"{who}bootstrap.servers": address for who in ("", "producer.", "consumer.", "admin.")}
    return Product(target, group="sharing", properties={**PROPERTIES, **clients}, environment={"TARGET": address})


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


class Hammer:
    """Asks each worker for everything, and writes a config of a stopped connector at each, without a pause.

    `codes`: how often each answer came. `refused`: answers to writes that are no success, of a worker that lives.
    """

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._stop = threading.Event()
        self.codes: dict[tuple[str, int], int] = {}
        self.refused: list[str] = []
        self._written = [[0, 0] for _ in sharing.workers]
        self._threads = [
            threading.Thread(target=self._strike, args=(number,), daemon=True) for number in range(len(sharing.workers))
        ]

    def __enter__(self) -> Self:
        for number in range(len(self._sharing.workers)):
            self._sharing.workers[0].call("GET", "/connectors")
            answer = self._sharing.workers[0].rest.post(
                "/connectors",
                json={"name": f"stopped{number}", "config": self._config(0), "initial_state": "STOPPED"},
            )
            assert answer.status_code in (201, 409), answer.text
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(40)

    def look(self) -> None:
        """AssertionError unless each worker has of each config the last that was acknowledged, or a later one."""
        for number, (acknowledged, asked) in enumerate(self._written):
            for worker in self._sharing.alive():
                config = worker.call("GET", f"/connectors/stopped{number}/config")
                there = int(config["offset.lag.max"])
                assert acknowledged <= there <= asked, f"stopped{number}: {there} of {acknowledged} to {asked}"

    def _config(self, value: int) -> dict[str, str]:
        sharing = self._sharing
        return {**mirror_config(sharing.source, sharing.target, "none"), "offset.lag.max": str(value)}

    def _strike(self, number: int) -> None:
        worker, base = self._sharing.workers[number], f"http://127.0.0.1:{self._sharing.workers[number].port}"
        written, value = self._written[number], 0
        with httpx.Client(base_url=base, timeout=30) as client:
            while not self._stop.wait(0.05):
                try:
                    for path in ("/connectors?expand=status&expand=info", "/", "/admin/links"):
                        self._count("GET", client.get(path).status_code)
                    value += 1
                    written[1] = value
                    answer = client.put(f"/connectors/stopped{number}/config", json=self._config(value))
                    self._count("PUT", answer.status_code)
                    if answer.is_success:
                        written[0] = value
                    elif worker.process.poll() is None:
                        self.refused.append(f"{answer.status_code} {answer.text[:200]}")
                except httpx.HTTPError:
                    self._count("none", 0)
                    time.sleep(0.3)

    def _count(self, method: str, code: int) -> None:
        self.codes[method, code] = self.codes.get((method, code), 0) + 1
