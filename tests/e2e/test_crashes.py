"""Whatever is killed or suspended mid-load: nothing is missing, nothing keeps copying, a second at most is repeated."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

import psutil
import pytest
from confluent_kafka import KafkaException

from deploy.local import LocalCluster
from tests.brokers import started
from tests.e2e.ends import end_offsets
from tests.e2e.executors import is_at_work
from tests.e2e.numbered import Writer, read
from tests.e2e.product import DAEMON, DRIVER, JVM, TASK, WORKER, Product, mirror_config, wait_gone
from tests.e2e.progress import Progress
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

PARTITIONS: Final = 4
RATE: Final = 2_000
PROPERTIES: Final = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "2000"}
# Longer than the session: the group gives the worker up meanwhile.
SUSPENDED_S: Final = 9.0
# Longer than everything that is waited for, but for the 90 s that a silent driver is given.
LONG_S: Final = 60.0
# How long records flow before and after a blow; by chance, as positions are committed twice a second.
LOADED_S: Final = (0.6, 1.4)
SECOND: Final = 1.0


@dataclass(frozen=True)
class Link:
    """A worker with one connector that copies `numbers` from source to target."""

    source: LocalCluster
    target: LocalCluster
    product: Product
    topic: str

    @property
    def remote(self) -> str:
        """The topic on the target."""
        return f"A.{self.topic}"

    @contextlib.contextmanager
    def watched(self) -> Iterator[Progress]:
        """How far the copy has come, until the end of `with`."""
        self._wait_leaders()
        copies = [(self.remote, partition) for partition in range(PARTITIONS)]
        with Progress(self.target, copies, patient=True) as progress:
            yield progress

    def wait_copying(self) -> None:
        """Wait until records arrive that were not there before."""
        self._wait_leaders()
        self.product.wait_going_on(self.topic, self.target, self.remote)

    def _wait_leaders(self) -> None:
        self.target.wait_until_ready()
        wait_for_state(self._ends, f"{self.remote} has leaders")

    def _ends(self) -> dict[int, int]:
        with contextlib.suppress(KafkaException):  # a broker that has just started knows of no leaders yet
            return end_offsets(self.target, self.remote)
        return {}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters of this module's own, as its tests kill brokers."""
    with started(LocalCluster("crash-source"), LocalCluster("crash-target")) as (source, target):
        yield source, target


@pytest.fixture(scope="module")
def worker(clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[Product]:
    """The module's one worker; every test leaves it running."""
    with Product(clusters[1], group="crashes", properties=PROPERTIES) as product:
        yield product


@pytest.fixture
def link(
    clusters: tuple[LocalCluster, LocalCluster], worker: Product, topic_name: Callable[[str], str]
) -> Iterator[Link]:
    """A topic and a connector of the test's own, copying already."""
    with linked(*clusters, worker, topic_name("numbers")) as made:
        yield made


@contextlib.contextmanager
def linked(source: LocalCluster, target: LocalCluster, product: Product, topic: str) -> Iterator[Link]:
    """A new topic and its connector in this worker, copying already."""
    found = Link(source, target, product, topic)
    source.create_topic(topic, PARTITIONS)
    product.put(topic, mirror_config(source, target, topic))
    product.wait_running(topic)
    yield found
    product.delete(topic)


def copied_whole(link: Link, writer: Writer, progress: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits until all has arrived, then asserts that all is there in order.

    Whatever ended a copier, what it wrote a second before its last record is not there twice. It is counted in seconds: in
    one second more can come than the writer writes, as what waited for a broker that was away comes at once.
    """
    wait_for(
        lambda: all_arrived(link, writer),
        "every number has arrived",
        pause=0.5,
        arrived=lambda: end_offsets(link.target, link.remote),
    )
    ends = settled_ends(link)
    progress.look()
    arrived = read(link.target, link.remote, ends)
    for partition, count in writer.counts.items():
        assert arrived[partition].first_seen == list(range(count)), f"partition {partition} is not whole and in order"
    repeated = sum(each.repeated for each in arrived.values())
    ages = [0.0]
    for partition, each in arrived.items():
        for first, last in each.jumps:
            copy = link.remote, partition
            # A broker that answers nobody, on a machine that does something else, takes no commits either.
            stalled = max(0.0, progress.stalled(progress.missed(copy, last), 2 * SECOND))
            ages.append(progress.apart(copy, first, last) - stalled)
    with capsys.disabled():
        print(f" [{repeated} of {sum(writer.counts.values())} repeated, {max(ages):.1f} s apart at most]", end="")
    assert max(ages) <= SECOND, f"{repeated} repeated; the worker's log ends with\n{link.product.log_tail(40)}"


def all_arrived(link: Link, writer: Writer) -> bool:
    ends = end_offsets(link.target, link.remote)
    if any(ends.get(partition, 0) < count for partition, count in writer.counts.items()):
        return False
    # End offsets count repeats too: look at the last numbers themselves.
    arrived = read(link.target, link.remote, ends)
    return all(arrived[partition].first_seen[-1] == count - 1 for partition, count in writer.counts.items())


def settled_ends(link: Link, seconds: float = 1.0) -> dict[int, int]:
    """The end offsets, which must stand still when nothing is written to the source: no orphan copies anything."""
    before = end_offsets(link.target, link.remote)
    time.sleep(seconds)
    assert end_offsets(link.target, link.remote) == before
    return before


# tests/spark kills each part of the tree, too; here records are copied meanwhile.
@pytest.mark.parametrize(
    ("parts", "orphans"),
    [
        pytest.param((TASK,), (TASK,), id="task", marks=pytest.mark.long),
        pytest.param((DAEMON,), (DAEMON, TASK), id="daemon", marks=pytest.mark.long),
        pytest.param((JVM,), (JVM, DAEMON, TASK, DRIVER), id="jvm", marks=pytest.mark.long),
        pytest.param((DRIVER,), (DRIVER, JVM, DAEMON, TASK), id="driver", marks=pytest.mark.long),
        # test_identity_with_kills.py kills Spark, a task and a worker in one copy, and judges it in the same way.
        pytest.param((WORKER,), (DRIVER, JVM, DAEMON, TASK), id="worker", marks=pytest.mark.long),
        # test_failover_truth.py kills everything, too.
        pytest.param((), (DRIVER, JVM, DAEMON, TASK), id="everything", marks=pytest.mark.long),
    ],
)
def test_a_kill_loses_nothing_and_repeats_a_second_at_most(
    link: Link, capsys: pytest.CaptureFixture[str], dice: Random, parts: tuple[str, ...], orphans: tuple[str, ...]
) -> None:
    product = link.product
    with link.watched() as progress:
        with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
            link.wait_copying()
            time.sleep(dice.uniform(*LOADED_S))
            tree = product.parts()
            # On a cluster Spark keeps processes for later tasks. It uses them also after the kill of their daemon.
            tree[TASK] = [each for each in tree[TASK] if is_at_work(each.pid, link.target)]
            assert tree[TASK]
            product.kill(*parts)
            if not parts or WORKER in parts:
                product.start()
            # The successor may run before the last orphan has ended; the data shows below that it does not write.
            wait_gone([process for part in orphans for process in tree[part]], 180)
            link.wait_copying()
            time.sleep(dice.uniform(*LOADED_S))
        copied_whole(link, writer, progress, capsys)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((WORKER,), id="worker", marks=pytest.mark.long),
        # The JVM is suspended among all, too; alone it ends no lease.
        pytest.param((JVM,), id="jvm", marks=pytest.mark.long),
        pytest.param((WORKER, DRIVER, JVM, DAEMON, TASK), id="all"),
    ],
)
def test_a_suspension_longer_than_the_session_loses_nothing(
    link: Link, capsys: pytest.CaptureFixture[str], dice: Random, parts: tuple[str, ...]
) -> None:
    with link.watched() as progress:
        with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
            link.wait_copying()
            time.sleep(dice.uniform(*LOADED_S))
            suspended = link.product.signal(signal.SIGSTOP, *parts)
            time.sleep(SUSPENDED_S)
            if WORKER in parts:
                # Its lease is over, so its tasks have stopped to write, although they run.
                settled_ends(link)
            go_on(suspended)
            link.wait_copying()
            time.sleep(dice.uniform(*LOADED_S))
        copied_whole(link, writer, progress, capsys)


# A suspension longer than the session is shown above; this one outlasts every time-out besides.
@pytest.mark.long
def test_a_minute_of_suspension_of_a_worker_and_of_anothers_jvm_loses_nothing(
    link: Link, topic_name: Callable[[str], str], capsys: pytest.CaptureFixture[str], dice: Random
) -> None:
    # Two workers that know nothing of each other: both wait through the same minute.
    with (
        Product(link.target, group="suspended-jvm", properties=PROPERTIES) as product,
        linked(link.source, link.target, product, topic_name("numbers")) as other,
    ):
        parts = {link: WORKER, other: JVM}
        with link.watched() as progress, other.watched() as others_progress:
            with (
                Writer(link.source, link.topic, PARTITIONS, RATE) as first,
                Writer(other.source, other.topic, PARTITIONS, RATE) as second,
            ):
                for each in parts:
                    each.wait_copying()
                suspended = [
                    process for each, part in parts.items() for process in each.product.signal(signal.SIGSTOP, part)
                ]
                time.sleep(LONG_S)
                settled_ends(link)
                go_on(suspended)
                for each in parts:
                    each.wait_copying()
                time.sleep(dice.uniform(*LOADED_S))
            copied_whole(link, first, progress, capsys)
            copied_whole(other, second, others_progress, capsys)


def go_on(suspended: list[psutil.Process]) -> None:
    """SIGCONT, to those that are still there."""
    for process in suspended:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


# tests/integration/source_task/test_ends_and_kills.py kills a broker of either side below a task under load.
@pytest.mark.parametrize(
    "sides",
    [
        pytest.param(("source",), id="source", marks=pytest.mark.long),
        pytest.param(("target",), id="target", marks=pytest.mark.long),
        pytest.param(("source", "target"), id="source_and_then_target", marks=pytest.mark.long),
    ],
)
def test_a_broker_that_is_killed_and_started_again_loses_nothing(
    link: Link, capsys: pytest.CaptureFixture[str], dice: Random, sides: tuple[str, ...]
) -> None:
    with link.watched() as progress:
        with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
            link.wait_copying()
            time.sleep(dice.uniform(*LOADED_S))
            for side in sides:
                [broker] = (link.source if side == "source" else link.target).brokers
                broker.kill()
                time.sleep(1.0)
                broker.start()
                link.wait_copying()
                time.sleep(dice.uniform(*LOADED_S))
        copied_whole(link, writer, progress, capsys)
