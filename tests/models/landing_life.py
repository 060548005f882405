"""The life of a connector in the landing's model: partitions move from task to task, and incidents meet its processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.app.supervisor.grants import LANDING_S
from mirror_connect.app.supervisor.run import Run
from mirror_connect.app.supervisor.supervisor import UNFENCED
from mirror_connect.connectors.assignment import TopicPartition, deal
from mirror_connect.connectors.job_contract import FAILED, RUNNING, TaskId
from tests.fakes.simulated import Process, World
from tests.fakes.simulated_group import Group
from tests.fakes.spark_rig import wanted
from tests.models.fence_broker import SOURCE
from tests.models.fence_life import IN_TIME_S, disturb
from tests.models.fence_workers import SESSION_S
from tests.models.landing_tasks import (
    PARTITIONS,
    RATES,
    TASKS,
    ConnectorWorker,
    LandingBroker,
    LandingMachines,
    SourceProcess,
)
from tests.models.watch import BrokenPromiseError

# Two of the partitions are there from the beginning.
FIRST_PARTITIONS: Final = 2
# Behind the last incident nobody waits longer than for what may still land, and for the ends and starts around that.
PATIENCE_S: Final = int(LANDING_S) + 25


@dataclass(frozen=True)
class Incident:
    """What happens `wait` seconds after the one before: now, or when that task's process comes to a step.

    `move`: the partitions are dealt anew, while the tasks run. `config`: so they are, and every task's config changes.
    `grow`: one more partition is there, and all are dealt anew. `number` says how. `spark`: it dies, with all of its
    processes. `epoch`: the time of the process's epoch is over. `deny`: nobody may use transactional ids any more, until
    `allow`. The others are those of fence_life.py.
    """

    wait: float
    kind: str
    whom: str
    task: int
    at: str
    seconds: float
    number: int


@dataclass(frozen=True)
class Schedule:
    """As in fence_life.py."""

    incidents: tuple[Incident, ...]
    rates: tuple[float, ...]
    net: int


class Life:
    """A worker with its connector, or two of them, of which one leads. Raises BrokenPromiseError.

    With one, requests may arrive whenever their schedule says. With two they arrive in time: behind a change of the worker
    nothing but the lease holds off what tasks of the former one have left behind. `fences`: tasks have the right to their
    transactional ids.
    """

    def __init__(self, schedule: Schedule, *, fences: bool = True) -> None:
        self.schedule = schedule
        self.world = World(schedule.net)
        self.group = Group(self.world, SESSION_S)
        self.alone = len(schedule.rates) == 1
        self.broker = LandingBroker(fences=fences, allowed=None if self.alone else self._leads)
        self.machines = LandingMachines(self.world, self.broker, self.group)
        self._partitions, self._config = FIRST_PARTITIONS, 0
        self._always_fenced = fences
        # Which tasks each partition was ever dealt to.
        self._dealt: set[tuple[TopicPartition, TaskId]] = set()
        self._deal(1)
        self._trouble_until = 0.0
        for number, rate in enumerate(schedule.rates):
            process = Process(self.world, f"w{number}", offset=1000.0 * number, rate=rate)
            worker = process.made(lambda process=process: ConnectorWorker(self.machines, process))
            self.machines.workers.append(worker)
            process.start(worker.work())
            self.world.run(1.0)

    def run(self) -> None:
        """From the first copied records to the calm behind the last incident."""
        self.world.run(2.0)
        for incident in self.schedule.incidents:
            self._pass(incident.wait)
            self._meet(incident)
            self._look()
        self._calm()
        # Who begins anew now would learn of a newer epoch, and of records that are missing.
        self.broker.forget()
        self._calm()

    def close(self) -> None:
        self.world.close()

    def _pass(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.run(min(1.0, until - self.world.now))
            self._look()

    def _leads(self, url: str) -> bool:
        """Whether this worker leads by the coordinator's account."""
        leader = self.group.members.get(self.group.leader)
        return leader is not None and url.encode() in leader.metadata and self.world.now - leader.heard <= SESSION_S

    def _leader(self) -> ConnectorWorker:
        workers = self.machines.workers
        return next((each for each in workers if self._leads(each.url)), workers[0])  # type: ignore[return-value]

    # --- incidents --------------------------------------------------------------------------------------------------

    def _deal(self, number: int) -> None:
        tasks, turn = 1 + number % len(TASKS), number // len(TASKS)
        partitions = [TopicPartition(SOURCE, each) for each in range(self._partitions)]
        turned = partitions[turn % len(partitions) :] + partitions[: turn % len(partitions)]
        dealt = dict(zip(TASKS, deal(turned, tasks), strict=False))
        self._dealt.update((partition, task) for task, partitions in dealt.items() for partition in partitions)
        self.machines.wanted = {
            task: wanted(f"X{self._config}", *map(str, partitions)) for task, partitions in dealt.items()
        }

    def _meet(self, incident: Incident) -> None:
        worker = self._leader()
        task = worker.newest(TASKS[incident.task])
        if incident.at == "now" or task is None:
            self._happen(incident, worker, task, before=True)
            return
        self.machines.armed[f"{incident.at} of {incident.task}"] = lambda task, before: self._happen(
            incident, task.worker, task, before=before
        )
        if incident.at.endswith("epoch"):
            # Only who starts asks for one.
            task.end()

    def _happen(self, incident: Incident, worker: ConnectorWorker, task: SourceProcess | None, *, before: bool) -> None:
        """`before`: before the request of the step is written."""
        seconds = incident.seconds
        if incident.kind == "late" and not self.alone:
            seconds = min(seconds, IN_TIME_S)
        self._trouble_until = max(self._trouble_until, self.world.now + seconds + 1.0)
        match incident.kind:
            case "move" | "config" | "grow":
                self._config += incident.kind == "config"
                self._partitions = min(PARTITIONS, self._partitions + (incident.kind == "grow"))
                self._deal(incident.number)
                for each in self.machines.workers:
                    each.process.call_soon(each.hears_of_config)
            case "spark":
                worker.spark_dies()
            case "kill" if task is not None:
                task.end()
            case "epoch" if task is not None and task.process.alive:
                task.process.call_soon(task.end_epoch)
            case "restart":
                worker.process.call_soon(worker.supervisor.restart, TASKS[incident.task])
            case "forget":
                self.broker.forget()
            case "deny":
                self.broker.fences = self._always_fenced = False
                # So that who writes learns of it: it asks for another epoch.
                self.broker.forget()
            case "allow":
                self.broker.fences = True
        processes = [] if incident.whom == "task" else [worker.process]
        processes += [] if incident.whom == "worker" or task is None else [task.process]
        for process in processes:
            disturb(process, incident.kind, seconds, before=before)

    # --- what must hold ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.broker.broken is not None:
            raise self.broker.broken
        for worker in self.machines.workers:
            for task in TASKS:
                if FAILED in worker.events.of(task):
                    raise BrokenPromiseError(f"task {task} is FAILED: {worker.events.trace(task)}")
            runs = [run for run in worker.supervisor._runs.values() if not run.is_over]
            for run in runs:
                self._look_at_grants(run, [each for each in worker.supervisor._runs.values() if each is not run])

    def _look_at_grants(self, run: Run, others: list[Run]) -> None:
        """A task waits for nothing but another one: that it gives a partition up, or that what it has left has landed.

        For its own past, too, if that is not fenced off.
        """
        for waiting in run.wanted - run.granted:
            held = any(waiting in other.held for other in others)
            if not held and not any(each == waiting and task != run.task for each, task in self._dealt):
                raise BrokenPromiseError(f"task {run.task} waits for {waiting}, which is nobody else's")
        if self._always_fenced and UNFENCED in f"{run.waits_for} {run.late}":
            raise BrokenPromiseError(f"task {run.task} waits for its own past, which is fenced off")

    def _calm(self) -> None:
        """Until every task runs with all of its partitions, and has committed what there was when the trouble was over."""
        self.machines.armed.clear()
        self._pass(max(0.0, self._trouble_until - self.world.now))
        there = [int(self.world.now * rate) - 1 for rate in RATES[: self._partitions]]
        for _ in range(PATIENCE_S):
            self._pass(1.0)
            if self._runs() and all(self.broker.positions.get(p, -1) >= end for p, end in enumerate(there)):
                return
        worker, committed = self._leader(), self.broker.positions
        states = {str(task): worker.events.of(task)[-1:] for task in self.machines.wanted}
        raise BrokenPromiseError(
            f"the connector does not go on: {states}, {self._waiting()} wait, {committed} is committed of {there}"
        )

    def _runs(self) -> bool:
        worker = self._leader()
        return all(worker.events.of(task)[-1:] == [RUNNING] for task in self.machines.wanted) and not self._waiting()

    def _waiting(self) -> dict[TaskId, set[tuple[str, int]]]:
        """The partitions that are not granted."""
        runs = [run for run in self._leader().supervisor._runs.values() if not run.is_over]
        granted = {
            task: set().union(*(run.granted for run in runs if run.task == task)) for task in self.machines.wanted
        }
        waiting = {task: set(each.partitions) - granted[task] for task, each in self.machines.wanted.items()}
        return {task: partitions for task, partitions in waiting.items() if partitions}


def live(schedule: Schedule, *, fences: bool = True) -> None:
    """Goes through it."""
    life = Life(schedule, fences=fences)
    try:
        life.run()
    finally:
        life.close()
