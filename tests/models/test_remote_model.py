"""Tasks on the executors of a cluster, in simulated time: frozen, lost and cut off hosts, and processes that wake again.

Membership, Supervisor and SourceTask are the product's; brokers, network, Spark, its executors and time are a model
(remote_cluster.py). Never do two processes of a task have a lease, and copying goes on within lease + 30 s.

The last tests put faults back, and show that such schedules find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from mirror_connect.app.supervisor import partition_assignment
from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.flow_runs import FlowRuns
from mirror_connect.app.supervisor.process_ends import RemoteEnds
from mirror_connect.app.supervisor.remote_watch import RemoteWatch
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_runs import TaskRuns
from tests.models import worker_life
from tests.models.landing_tasks import TASKS, simulated
from tests.models.remote_cluster import RemoteWorker
from tests.models.remote_life import live_there
from tests.models.watch import BrokenPromiseError
from tests.models.worker_life import Incident, Schedule
from tests.models.worker_schedules import SCHEDULES, Incidents, Live, explore, in_simulated_time, look_for_a_fault

FAULTS_SCHEDULES = 300
TROUBLE = Incidents(
    kinds=(
        *("freeze", "freeze", "host", "jvm", "net", "link", "link", "reborn"),
        *("move", "move", "config", "epoch", "restart", "late", "pause", "spark"),
    ),
    whom=("task", "task", "task", "worker"),
    at=("now", "now", "now", "before batch", "behind batch", "behind report", "behind epoch"),
    seconds=(1.5, 4.0, 9.0, 28.0, 120.0),
    waits=(0.0, 0.3, 1.0, 2.5, 6.0, 14.0),
    tasks=tuple(range(len(TASKS))),
    numbers=tuple(range(9)),
    most=6,
)
# Every incident ends a process, or hides it, and the others hurry to take its place.
ENDS = Incidents(
    ("freeze", "link", "jvm", "host", "restart", "config", "spark"),
    ("task",),
    ("now",),
    (9.0, 120.0),
    (0.0, 0.3, 1.0, 2.5),
    tasks=(0, 1),
    numbers=(1, 4),
    fewest=2,
    most=4,
)


@pytest.fixture(autouse=True)
def _in_simulated_time() -> Iterator[None]:
    with in_simulated_time(), simulated():
        yield


def without_rights(schedule: Schedule) -> None:
    """A life in which nobody may use transactional ids."""
    live_there(schedule, fences=False)


@pytest.mark.parametrize("kind", ["freeze", "host", "jvm", "net", "link"])
def test_copying_goes_on_elsewhere(kind: str) -> None:
    live_there(Schedule((Incident(0.0, kind, "task", "now", 120.0, 0),), (1.0,), 1))


@pytest.mark.parametrize("net", range(3))
def test_an_executor_that_is_frozen_before_its_first_task_is_left(net: int) -> None:
    live_there(met((0.0, "reborn", 120.0), (7.0, "restart", 1.0), net=net))


@pytest.mark.parametrize("life", [pytest.param(live_there, id="fenced"), pytest.param(without_rights, id="unfenced")])
def test_one_writer_at_a_time_and_copying_goes_on(life: Live) -> None:
    explore(life, TROUBLE.schedules(1), max(1, SCHEDULES // 10))


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("trouble", [pytest.param(TROUBLE, id="all"), pytest.param(ENDS, id="ends")])
@pytest.mark.parametrize("life", [pytest.param(live_there, id="fenced"), pytest.param(without_rights, id="unfenced")])
def test_the_same_at_length(life: Live, trouble: Incidents) -> None:
    explore(life, trouble.schedules(1), 2 * SCHEDULES)


# A request of a process without a fence, which is lost with its host: whoever has the partition next waits for it.
LATE_AND_LOST = Schedule(
    (
        *(Incident(0.0, "link", "worker", "behind epoch", 1.5, 2, 3), Incident(0.3, "spark", "task", "now", 1.5, 1, 8)),
        *(
            Incident(14.0, "jvm", "worker", "behind batch", 1.5, 0, 2),
            Incident(0.0, "late", "task", "now", 120.0, 1, 0),
        ),
        Incident(2.5, "host", "worker", "behind report", 9.0, 1, 0),
        Incident(14.0, "freeze", "task", "now", 9.0, 0, 4),
    ),
    (1.02,),
    128,
)


def test_what_comes_as_late_as_a_request_can_is_waited_for() -> None:
    without_rights(LATE_AND_LOST)


def test_a_request_that_is_later_than_that_is_not_covered() -> None:
    with mock.patch.object(worker_life, "LATEST_S", 120.0), pytest.raises(BrokenPromiseError, match="wrote behind"):
        without_rights(LATE_AND_LOST)


def patched(where: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(where, name, value)


def gone(_: RemoteEnds, *__: object, **___: object) -> bool:
    return True


def by_process_id_alone(runs: FlowRuns, process: Any, run: Any) -> bool:
    return any(other is not run and other.pid == process.pid for other in runs)


def nothing(*_: object, **__: object) -> None:
    return None


def no_time(*_: object) -> float:
    return 0.0


def met(*incidents: tuple[float, str, float], net: int = 1) -> Schedule:
    """What happens to the executor of task 0: after so many seconds, what, and for how long. `net` places the tasks."""
    made = tuple(Incident(wait, kind, "task", "now", seconds, 0) for wait, kind, seconds in incidents)
    return Schedule(made, (1.0,), net)


# Its next process begins on the other executor.
CUT_OFF_AND_RESTARTED = met((0.0, "link", 9.0), (0.3, "restart", 1.0), net=6)
CUT_OFF_FROM_A_SPARK_THAT_DIES = met((0.0, "link", 120.0), (0.3, "spark", 1.0))
CUT_OFF_AND_AN_ORPHAN = met((0.0, "link", 9.0), (0.3, "jvm", 1.0))
FROZEN = met((0.0, "freeze", 120.0))
# The task begins again on the executor that has come and does nothing.
FROZEN_UNHEARD = met((0.0, "reborn", 120.0), (7.0, "restart", 1.0))


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        pytest.param(CUT_OFF_AND_RESTARTED, patched(RemoteEnds, "is_gone", gone), id="gone_at_once"),
        pytest.param(
            CUT_OFF_FROM_A_SPARK_THAT_DIES, patched(TaskRuns, "finish_all", TaskRuns.end_all), id="gone_with_spark"
        ),
        pytest.param(
            CUT_OFF_AND_AN_ORPHAN, patched(FlowRuns, "has_another_run", by_process_id_alone), id="process_ids_alone"
        ),
        pytest.param(FROZEN, patched(RemoteWatch, "look_after", nothing), id="silence_is_not_noticed"),
        pytest.param(FROZEN_UNHEARD, patched(RemoteWorker, "_silent_s", no_time), id="no_executor_is_asked"),
        pytest.param(
            FROZEN_UNHEARD, patched(ClusterExecutors, "was_any_given_up", nothing), id="the_queue_of_one_given_up"
        ),
    ],
)
def test_a_fault_put_back_breaks_a_promise(
    schedule: Schedule, fault: Callable[[], AbstractContextManager[Any]]
) -> None:
    live_there(schedule)
    with fault(), pytest.raises(BrokenPromiseError):
        live_there(schedule)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("life", "trouble", "fault"),
    [
        pytest.param(live_there, ENDS, patched(SparkHost, "give_up_executor", nothing), id="silent_ones_get_tasks"),
        pytest.param(without_rights, TROUBLE, patched(partition_assignment, "LANDING_S", 0.0), id="nothing_is_late"),
    ],
)
def test_a_fault_put_back_is_found(
    life: Live, trouble: Incidents, fault: Callable[[], AbstractContextManager[Any]]
) -> None:
    with fault(), pytest.raises(BrokenPromiseError):
        look_for_a_fault(life, trouble.schedules(1), FAULTS_SCHEDULES)
