"""The life of a task in the fence's model: two workers, incidents that meet the one that leads, and the calm behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.job_contract import FAILED, RUNNING
from tests.fakes.simulated import Process, World
from tests.fakes.simulated_group import Group
from tests.models.fence_broker import PARTITIONS, Broker
from tests.models.fence_workers import RATES, SESSION_S, TASK, Machines, Task, Worker
from tests.models.watch import BrokenPromiseError

WORKERS: Final = 2
# For so long a request may be under way where nothing but the lease's margin holds it off.
IN_TIME_S: Final = 1.5
# As long as a silent task, a session and the pauses of one that is fenced again and again.
PATIENCE_S: Final = 150


@dataclass(frozen=True)
class Incident:
    """What happens to the worker that leads, `wait` seconds after the one before: now, or when its task comes to a step.

    `pause`: suspended. `cut`: nothing gets through to brokers. `deaf`: no answers come. `late`: what is sent within a second
    arrives so much later. `kill`: the task's process. `restart`: as by REST. `forget`: brokers lose the producer's state.
    """

    wait: float
    kind: str
    whom: str
    at: str
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """`rates`: how fast the workers' clocks go. `net` chooses the network's delays."""

    incidents: tuple[Incident, ...]
    rates: tuple[float, ...]
    net: int


@dataclass(frozen=True)
class Setting:
    """What may be counted on. `fences`: tasks have the right to their transactional id. `late`: requests may arrive when the
    lease is long over. `lies`: clocks stand still while a process is suspended.
    """

    fences: bool = True
    late: bool = False
    lies: bool = False


class Life:
    """Two workers in their group, and the task of the one that leads. Raises BrokenPromiseError."""

    def __init__(self, schedule: Schedule, setting: Setting) -> None:
        self.schedule, self.setting = schedule, setting
        self.world = World(schedule.net)
        self.group = Group(self.world, SESSION_S)
        lease_holds = not setting.late and not setting.lies
        self.broker = Broker(fences=setting.fences, allowed=self._leads if lease_holds else None)
        self.machines = Machines(self.world, self.broker, self.group)
        self._trouble_until = 0.0
        for number, rate in enumerate(schedule.rates):
            process = Process(self.world, f"w{number}", offset=1000.0 * number, rate=rate, lies=setting.lies)
            worker = process.made(lambda process=process: Worker(self.machines, process))
            self.machines.workers.append(worker)
            process.start(worker.work())
            self.world.run(1.0)

    def run(self) -> None:
        """From the first copied records to the calm behind the last incident."""
        self.world.run(2.0)
        for incident in self.schedule.incidents:
            self.world.run(incident.wait)
            self._meet(incident)
            self._look()
        self._calm()
        # Were the epoch of another one newer, a task that begins anew would learn of it now.
        self.broker.forget()
        self._calm()

    def close(self) -> None:
        self.world.close()

    def _leads(self, url: str) -> bool:
        """Whether this worker leads by the coordinator's account."""
        leader = self.group.members.get(self.group.leader)
        return leader is not None and url.encode() in leader.metadata and self.world.now - leader.heard <= SESSION_S

    def _leader(self) -> Worker:
        workers = self.machines.workers
        return next((each for each in workers if self._leads(each.url)), workers[0])

    # --- incidents --------------------------------------------------------------------------------------------------

    def _meet(self, incident: Incident) -> None:
        worker = self._leader()
        task = worker.task
        if incident.at == "now" or task is None:
            self._happen(incident, worker, task, before=True)
            return
        self.machines.armed[incident.at] = lambda task, before: self._happen(incident, task.worker, task, before=before)
        # Only who starts or begins anew asks for an epoch.
        if incident.at.endswith("epoch") and incident.whom == "worker":
            self.broker.forget()
        elif incident.at.endswith("epoch"):
            task.end()

    def _happen(self, incident: Incident, worker: Worker, task: Task | None, *, before: bool) -> None:
        """`before`: before the request of the step is written."""
        seconds = incident.seconds
        if incident.kind == "late" and not self.setting.late:
            seconds = min(seconds, IN_TIME_S)
        self._trouble_until = max(self._trouble_until, self.world.now + seconds + 1.0)
        processes = [] if incident.whom == "task" else [worker.process]
        processes += [] if incident.whom == "worker" or task is None else [task.process]
        match incident.kind:
            case "kill" if task is not None:
                task.end()
            case "restart":
                worker.process.call_soon(worker.supervisor.restart, TASK)
            case "forget":
                self.broker.forget()
        for process in processes:
            disturb(process, incident.kind, seconds, before=before)

    # --- what must hold ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.broker.broken is not None:
            raise self.broker.broken
        for worker in self.machines.workers:
            if FAILED in worker.events.of(TASK):
                raise BrokenPromiseError(f"the task is FAILED: {worker.events.trace(TASK)}")

    def _calm(self) -> None:
        """Until the task runs again, and has copied and committed what there was when the trouble was over."""
        self.machines.armed.clear()
        self.world.run(max(0.0, self._trouble_until - self.world.now))
        wanted = [int(self.world.now * rate) - 1 for rate in RATES]
        for _ in range(PATIENCE_S):
            self.world.run(1.0)
            self._look()
            states, committed = self._leader().events.of(TASK), self.broker.positions
            if states[-1:] == [RUNNING] and all(committed.get(p, -1) >= wanted[p] for p in range(PARTITIONS)):
                return
        raise BrokenPromiseError(f"the task does not go on: {states[-1:]}, {committed} is committed of {wanted}")


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


def live(schedule: Schedule, setting: Setting) -> None:
    """Goes through it."""
    life = Life(schedule, setting)
    try:
        life.run()
    finally:
        life.close()
