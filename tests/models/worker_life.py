"""The life of workers and their tasks: incidents that meet the worker that leads, and the calm behind them.

What the fence's model (fence_life.py) and the landing's (landing_life.py) have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.connectors.task_protocol import FAILED, RUNNING, TaskId
from tests.fakes.simulated import Process, World
from tests.fakes.simulated_group import Group
from tests.models.fence_broker import Broker
from tests.models.fence_workers import CONNECTOR, SESSION_S, Machines, Task, Worker
from tests.models.watch import BrokenPromiseError

W = TypeVar("W", bound=Worker)
# For so long a request may be under way where nothing but the lease's margin holds it off.
IN_TIME_S: Final = 1.5
# And elsewhere: nobody waits for one for longer than LANDING_S (docs/group-and-lease.md, what is not covered).
LATEST_S: Final = LANDING_S - 2.0


@dataclass(frozen=True)
class Incident:
    """What happens to the worker that leads, `wait` seconds after the one before: now, or when that task comes to a step.

    `pause`: suspended. `cut`: nothing gets through to brokers. `deaf`: no answers come. `late`: what is sent within a second
    arrives so much later. `kill`: the task's process. `restart`: as by REST. `forget`: brokers lose the producer's state.
    `number` says how, where there is a choice.
    """

    wait: float
    kind: str
    whom: str
    at: str
    seconds: float
    task: int = 0
    number: int = 0


@dataclass(frozen=True)
class Schedule:
    """`rates`: how fast the workers' clocks go. `net` chooses the network's delays."""

    incidents: tuple[Incident, ...]
    rates: tuple[float, ...]
    net: int


class WorkerLife(Generic[W]):
    """Workers in their group, and the tasks of the one that leads. Raises BrokenPromiseError.

    `late`: requests may arrive when the lease is long over. `patience_s`: how long all may take to go on behind the last
    incident. `rates`: records a second of each partition.
    """

    patience_s: ClassVar[int]
    rates: ClassVar[tuple[float, ...]]
    broker: Broker
    machines: Machines

    def __init__(self, schedule: Schedule, *, late: bool) -> None:
        self.schedule, self.late = schedule, late
        self.world = World(schedule.net)
        self.group = Group(self.world, SESSION_S)
        self.trouble_until = 0.0

    def start_workers(self, worker: Callable[[Machines, Process], W], *, lies: bool = False) -> None:
        """`lies`: their clocks stand still while they are suspended."""
        for number, rate in enumerate(self.schedule.rates):
            process = Process(self.world, f"w{number}", offset=1000.0 * number, rate=rate, lies=lies)
            made = process.made(lambda process=process: worker(self.machines, process))
            self.machines.workers.append(made)
            process.start(made.work())
            self.world.run(1.0)

    def run(self) -> None:
        """From the first copied records to the calm behind the last incident."""
        self.world.run(2.0)
        for incident in self.schedule.incidents:
            self.pass_time(incident.wait)
            self._meet(incident)
            self.look()
        self._calm()
        # Who begins anew now would learn of a newer epoch, and of records that are missing.
        self.broker.forget()
        self._calm()

    def close(self) -> None:
        self.world.close()

    def pass_time(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.run(min(1.0, until - self.world.now))
            self.look()

    def leads(self, url: str) -> bool:
        """Whether this worker leads by the coordinator's account."""
        leader = self.group.members.get(self.group.leader)
        return leader is not None and url.encode() in leader.metadata and self.world.now - leader.heard <= SESSION_S

    def leader(self) -> W:
        workers = self.machines.workers
        return next((each for each in workers if self.leads(each.url)), workers[0])  # type: ignore[return-value]

    # Incidents.

    def _meet(self, incident: Incident) -> None:
        worker = self.leader()
        task = worker.newest(TaskId(CONNECTOR, incident.task))
        if incident.at == "now" or task is None:
            self.happen(incident, worker, task, before=True)
            return
        self.machines.armed[f"{incident.at} of {incident.task}"] = lambda task, before: self.happen(
            incident,
            task.worker,  # type: ignore[arg-type]
            task,
            before=before,
        )
        # Only who starts or begins anew asks for an epoch.
        if incident.at.endswith("epoch") and incident.whom == "worker":
            self.broker.forget()
        elif incident.at.endswith("epoch"):
            task.die()

    def happen(self, incident: Incident, worker: W, task: Task | None, *, before: bool) -> None:
        """`before`: before the request of the step is written."""
        seconds = incident.seconds
        if incident.kind == "late":
            seconds = min(seconds, LATEST_S if self.late else IN_TIME_S)
        self.trouble_until = max(self.trouble_until, self.world.now + seconds + 1.0)
        match incident.kind:
            case "kill" if task is not None:
                task.die()
            case "restart":
                worker.process.call_soon(worker.supervisor.restart, TaskId(CONNECTOR, incident.task))
            case "forget":
                self.broker.forget()
        processes = [] if incident.whom == "task" else [worker.process]
        processes += [] if incident.whom == "worker" or task is None else task.processes
        for process in processes:
            disturb(process, incident.kind, seconds, before=before)

    # What must hold.

    def look(self) -> None:
        if self.broker.broken is not None:
            raise self.broker.broken
        for worker in self.machines.workers:
            for task, state, trace in worker.events.states:
                if state == FAILED:
                    raise BrokenPromiseError(f"task {task} is FAILED: {trace}")

    def _calm(self) -> None:
        """Until all goes on, and what there was when the trouble was over is copied and committed."""
        self.machines.armed.clear()
        self.pass_time(max(0.0, self.trouble_until - self.world.now))
        there = [int(self.world.now * rate) - 1 for rate in self.rates[: self.partitions]]
        for _ in range(self.patience_s):
            self.pass_time(1.0)
            committed = self.broker.positions
            if self.goes_on() and all(committed.get(p, -1) >= end for p, end in enumerate(there)):
                return
        states = {str(task): self.leader().events.of(task)[-1:] for task in self.machines.wanted}
        raise BrokenPromiseError(
            f"the connector does not go on: {states}, {self.waiting()} wait, {committed} is committed of {there}"
        )

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self.rates)

    def goes_on(self) -> bool:
        """Whether every task runs with all of its partitions."""
        events = self.leader().events
        return all(events.of(task)[-1:] == [RUNNING] for task in self.machines.wanted) and not self.waiting()

    def waiting(self) -> dict[TaskId, set[tuple[str, int]]]:
        """The partitions that are not assigned."""
        runs = [run for run in self.leader().supervisor.runs if not run.is_over]
        assigned = {
            task: set().union(*(run.assigned for run in runs if run.task == task)) for task in self.machines.wanted
        }
        waiting = {task: set(each.partitions) - assigned[task] for task, each in self.machines.wanted.items()}
        return {task: partitions for task, partitions in waiting.items() if partitions}


def disturb(process: Process, kind: str, seconds: float, *, before: bool) -> None:
    """What happens to one process, if it is of that kind. `before`: before the request of a step is written."""
    match kind:
        case "pause" if before:
            process.suspend(seconds)
        case "pause":
            process.world.after(0.0, lambda: process.suspend(seconds))
        case "cut" if before:
            process.cut(seconds)
        case "cut":
            process.world.after(0.0005, lambda: process.cut(seconds))
        case "deaf":
            process.late(seconds, 0.0)
        case "late":
            process.late(1.0, seconds)
