"""The life of a connector in the landing's model: partitions move from task to task, and incidents meet its processes."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar, Final

from mirror_connect.app.supervisor.partition_assignment import LANDING_S
from mirror_connect.app.supervisor.task_requests import UNFENCED
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.mirror.assignment import assign
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.spark_rig import wanted
from tests.models.fence_broker import SOURCE
from tests.models.fence_workers import CONNECTOR, Task
from tests.models.landing_broker import PARTITIONS, RATES, LandingBroker, LandingMachines
from tests.models.landing_tasks import TASKS, ConnectorWorker, SourceProcess
from tests.models.watch import BrokenPromiseError
from tests.models.worker_life import Incident, Schedule, WorkerLife

# Two of the partitions are there from the beginning.
FIRST_PARTITIONS: Final = 2


class Life(WorkerLife[ConnectorWorker]):
    """A worker with its connector, or two of them, of which one leads.

    With one, requests may arrive whenever their schedule says. With two they arrive in time: behind a change of the worker
    nothing but the lease holds off what tasks of the former one have left behind. `fences`: tasks have the right to their
    transactional ids.

    More kinds of incidents: `move`: the partitions are assigned anew, while the tasks run. `config`: so they are, and every
    task's config changes. `grow`: one more partition is there, and all are assigned anew. `number` says how. `spark`: it
    dies, with all of its processes. `place`: the task moves into the process that light tasks share, or out of it. `epoch`:
    the time of the process's epoch is over. `deny`: nobody may use transactional ids any more, until `allow`.
    """

    # Behind the last incident nobody waits longer than for what may still land, and for the ends and starts around that.
    patience_s = int(LANDING_S) + 25
    rates = RATES
    worker_class: ClassVar[type[ConnectorWorker]] = ConnectorWorker

    def __init__(self, schedule: Schedule, *, fences: bool = True) -> None:
        alone = len(schedule.rates) == 1
        super().__init__(schedule, late=alone)
        self.broker = LandingBroker(fences=fences, allowed=None if alone else self.leads)
        self.machines = LandingMachines(self.world, self.broker, self.group)
        self._partitions, self._config = FIRST_PARTITIONS, 0
        self._always_fenced = fences
        # Which tasks each partition was ever assigned to.
        self._assigned: set[tuple[TopicPartition, TaskId]] = set()
        self._assign(1)
        self.start_workers(self.worker_class)

    @property
    def partitions(self) -> int:
        return self._partitions

    # Incidents.

    def _assign(self, number: int) -> None:
        tasks, turn = 1 + number % len(TASKS), number // len(TASKS)
        partitions = [TopicPartition(SOURCE, each) for each in range(self._partitions)]
        turned = partitions[turn % len(partitions) :] + partitions[: turn % len(partitions)]
        assigned = dict(zip(TASKS, assign(turned, tasks), strict=False))
        self._assigned.update((partition, task) for task, partitions in assigned.items() for partition in partitions)
        self.machines.wanted = {
            task: wanted(f"X{self._config}", *map(str, partitions)) for task, partitions in assigned.items()
        }

    def happen(self, incident: Incident, worker: ConnectorWorker, task: Task | None, *, before: bool) -> None:
        match incident.kind:
            case "move" | "config" | "grow":
                self._config += incident.kind == "config"
                self._partitions = min(PARTITIONS, self._partitions + (incident.kind == "grow"))
                self._assign(incident.number)
                for each in self.machines.workers:
                    each.process.call_soon(each.hears_of_config)
            case "spark":
                worker.spark_dies()
            case "place":
                worker.process.call_soon(worker.place, TaskId(CONNECTOR, incident.task))
            case "epoch" if isinstance(task, SourceProcess) and task.process.alive:
                task.process.call_soon(task.end_epoch)
            case "deny":
                self.broker.fences = self._always_fenced = False
                # So that who writes learns of it: it asks for another epoch.
                self.broker.forget()
            case "allow":
                self.broker.fences = True
        super().happen(incident, worker, task, before=before)

    # What must hold.

    def goes_on(self) -> bool:
        runs = list(self.leader().supervisor.runs)
        return super().goes_on() and all(run.light == run.shared for run in runs)

    def look(self) -> None:
        super().look()
        for worker in self.machines.workers:
            runs = [run for run in worker.supervisor.runs if not run.is_over]
            for run in runs:
                self._look_at_assignments(run, [each for each in worker.supervisor.runs if each is not run])

    def _look_at_assignments(self, run: TaskRun, others: list[TaskRun]) -> None:
        """A task waits for nothing but another one: that it gives a partition up, or that what it has left has landed.

        For its own past, too, if that is not fenced off.
        """
        for waiting in run.wanted - run.assigned:
            owned = any(waiting in other.owned for other in others)
            if not owned and not any(each == waiting and task != run.task for each, task in self._assigned):
                raise BrokenPromiseError(f"task {run.task} waits for {waiting}, which is nobody else's")
        if self._always_fenced and UNFENCED in f"{run.waits_for} {run.late}":
            raise BrokenPromiseError(f"task {run.task} waits for its own past, which is fenced off")


def live(schedule: Schedule, *, fences: bool = True) -> None:
    """Goes through it."""
    with closing(Life(schedule, fences=fences)) as life:
        life.run()
