"""The worker as a process: it ends when asked, whatever is down; it comes back as it was; it answers whatever Spark does."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

from deploy.local import LocalCluster, start_all
from tests.brokers import messages, started
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.numbered import Writer
from tests.e2e.product import DRIVER, JVM, WORKER, Product, mirror_config
from tests.waiting import PATIENCE_S, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters that the tests take away from the worker."""
    with started(LocalCluster("life-source"), LocalCluster("life-target")) as (source, target):
        source.create_topic("numbers", 2)
        yield source, target


@pytest.fixture(scope="module")
def worker(clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[Product]:
    """A worker that has one slot for tasks, to be stopped and started again."""
    with Product(clusters[1], group="life", properties={"spark.master": "local[1,4]"}) as product:
        yield product


@pytest.fixture
def running(clusters: tuple[LocalCluster, LocalCluster], worker: Product) -> Product:
    """The worker, started if it was stopped, with a connector that copies."""
    source, target = clusters
    if worker.process.poll() is not None:
        worker.start()
    worker.put("copier", mirror_config(source, target, "numbers"))
    worker.wait_running("copier")
    return worker


def unassigned(product: Product, name: str) -> str | None:
    """What an unassigned task of the connector says."""
    tasks = product.status(name).get("tasks", [])
    return next((task["trace"] for task in tasks if task["state"] == "UNASSIGNED" and task.get("trace")), None)


def test_a_task_without_a_slot_is_unassigned_and_says_so(
    clusters: tuple[LocalCluster, LocalCluster], running: Product
) -> None:
    running.put("copier", mirror_config(*clusters, "numbers", tasks_max="2"))
    # Only after some seconds without a slot: a slot that is about to become free is no trouble.
    line = "has no Spark slot: 2 tasks want to run and spark.master=local[1,4] has 1 slot."
    wait_for_state(lambda: line in (unassigned(running, "copier") or ""), "a task says why it is unassigned")
    # The task that has the slot may just be starting.
    wait_for_state(
        lambda: sorted(running.states("copier")[1:]) == ["RUNNING", "UNASSIGNED"], "one task runs and the other doesn't"
    )
    running.put("copier", mirror_config(*clusters, "numbers"))
    running.wait_running("copier")


def traces_written(product: Product, name: str) -> list[str | None]:
    """The traces of every status that was ever written of the connector's first task."""
    found = messages(product.cluster, f"{product.group}-status", 0)
    of_task = [each.value() for each in found if each.key() == f"status-task-{name}-0".encode()]
    return [json.loads(value).get("trace") for value in of_task if value is not None]


def first_trace(product: Product, name: str, written: int) -> str | None:
    """The first trace behind so many statuses of the connector's first task; None while there is none."""
    return next(filter(None, traces_written(product, name)[written:]), None)


def appears(product: Product, part: str, before: set[int]) -> bool:
    return bool(product.pids(part) - before)


# tests/spark kills the driver, too.
@pytest.mark.soak
@pytest.mark.parametrize("part", [pytest.param(DRIVER, marks=pytest.mark.long), JVM])
def test_the_rest_answers_while_spark_dies_and_starts_and_the_status_says_why(
    running: Product, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    slowest: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=running.rest.base_url, timeout=PATIENCE_S) as rest:
            while not stop.wait(0.02):
                asked = time.monotonic()
                assert rest.get("/connectors/copier/status").status_code == httpx.codes.OK
                slowest.append(time.monotonic() - asked)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        before, written = running.pids(part), len(traces_written(running, "copier"))
        killed = time.monotonic()
        running.kill(part)
        if part == JVM:
            # Each is there for a moment, until the next application is started: what is asked for may be the next one.
            told = partial(first_trace, running, "copier", written)
            trace = wait_for_state(told, "the task says why it is unassigned")
            assert trace.startswith("Spark ended: its JVM was ended by signal 9 (SIGKILL)")
        wait_for_state(partial(appears, running, part, before), f"a new {part}")
        running.wait_running("copier")
        away_s = time.monotonic() - killed
        wait_for_state(
            lambda: [task.get("trace") for task in running.status("copier")["tasks"]] == [None], "its trace is gone"
        )
    finally:
        stop.set()
        asking.join()
    with capsys.disabled():
        print(f" [slowest of {len(slowest)} answers: {max(slowest):.3f} s]", end="")
    # A worker that waits for Spark is silent for as long as Spark takes: ten seconds, or many more where a machine is slow.
    slowest.sort()
    assert slowest[len(slowest) * 99 // 100 - 1] < max(3.0, away_s / 4)
    assert slowest[-1] < max(10.0, away_s)


# test_hostile_requests.py starts a worker again with two hundred connectors.
@pytest.mark.long
def test_after_a_restart_everything_is_as_it_was(clusters: tuple[LocalCluster, LocalCluster], running: Product) -> None:
    for name, verb in (("paused", "pause"), ("stopped", "stop")):
        running.put(name, mirror_config(*clusters, f"nothing-{name}", source_cluster_alias=name))
        running.wait_states(name, ["RUNNING"])
        running.call("PUT", f"/connectors/{name}/{verb}")
        running.wait_states(name, [name.upper()])
    assert running.stop() == 0
    running.start()
    running.wait_running("copier")
    for name in ("paused", "stopped"):
        running.wait_states(name, [name.upper()])
    for name in ("paused", "stopped"):
        running.delete(name)


@pytest.mark.long
def test_status_and_log_tell_what_happens_to_spark_and_no_more(running: Product) -> None:
    running.stop()
    said = len(running.log_text())
    running.start()
    # Spark takes seconds longer than REST; the task is seen meanwhile, with the reason.
    line = "Waiting for Spark, which was started at "
    wait_for_state(lambda: (unassigned(running, "copier") or "").startswith(line), "the task says why it is unassigned")
    running.wait_running("copier")
    running.stop()
    lines = running.log_text()[said:].splitlines()
    assert [
        line for line in lines if not re.match(r"\[[0-9 :,-]{23}\] (INFO|WARNING) .* \(mirror_connect[\w.]*\)$", line)
    ] == []
    texts = [re.sub(r"[0-9][0-9.:]*", "N", line[26:].partition(" ")[2].rpartition(" (")[0]) for line in lines]
    # Where a machine is busy a task's process may begin late, and that is told.
    may_come = ("copier: Not supported", "and no process has begun yet")
    # Sorted: which of two that start together comes first is not promised.
    assert sorted(text for text in texts if not any(words in text for words in may_come)) == sorted(
        [
            "mirror-connect N starts: group life on the cluster at N",
            "REST listens at http://N",
            "Spark is starting",
            "This worker leads its group",
            "This worker runs N connector and N task",
            "Task copier-N is UNASSIGNED: Waiting for Spark, which was started at N",
            "The worker is up; its REST interface is http://N",
            "Connector copier is RUNNING",
            "Spark is ready after N s: slots for N task",
            "Task copier-N is RUNNING with N partitions",
            "The worker was asked to stop: tasks commit what they have copied",
            "Task copier-N has ended; what it copied is committed",
            "Spark has ended",
            "The worker has stopped",
        ]
    )


SourceAndTarget = tuple[LocalCluster, LocalCluster]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("take_away", "give_back"),
    [
        pytest.param(
            lambda source, target: source.suspend(),
            lambda source, target: source.resume(),
            id="source_suspended",
            marks=pytest.mark.long,
        ),
        # The hardest: a task's last commit waits for the target, and so do the worker's own writes.
        pytest.param(
            lambda source, target: target.suspend(), lambda source, target: target.resume(), id="target_suspended"
        ),
        pytest.param(
            lambda source, target: (source.kill(), target.kill()),
            start_all,
            id="both_killed",
            marks=pytest.mark.long,
        ),
    ],
)
def test_it_ends_when_asked_although_a_cluster_is_away(
    clusters: SourceAndTarget,
    running: Product,
    capsys: pytest.CaptureFixture[str],
    take_away: Callable[[LocalCluster, LocalCluster], object],
    give_back: Callable[[LocalCluster, LocalCluster], object],
) -> None:
    source, target = clusters
    with Writer(source, "numbers", 2, 200):
        ends = end_offsets(target, "A.numbers")
        wait_ends(target, "A.numbers", {partition: end + 1 for partition, end in ends.items()})
    take_away(source, target)
    try:
        time.sleep(1.0)
        asked = time.monotonic()
        # Not what ends it anyhow after nine seconds, which gives another code. stop() also asserts that nothing is left.
        assert running.stop() == 0, running.log_tail()
        with capsys.disabled():
            print(f" [ended after {time.monotonic() - asked:.1f} s]", end="")
    finally:
        give_back(source, target)


def test_it_ends_while_it_starts(clusters: SourceAndTarget, worker: Product) -> None:
    if worker.process.poll() is None:
        worker.stop()
    worker.launch()
    wait_for_state(lambda: worker.pids(WORKER) and worker.pids(DRIVER), "Spark is being started", pause=0.01)
    assert worker.stop() == 0
