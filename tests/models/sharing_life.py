"""The life of a connector whose tasks run on several workers: tasks and partitions move, and workers come and go."""

from __future__ import annotations

from contextlib import closing
from typing import Final, cast

from mirror_connect.app.storage.config_records import PAUSED, STARTED
from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.app.supervisor.task_run import Partitions
from mirror_connect.connectors.mirror.assignment import assign
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import RUNNING, TaskId
from tests.fakes.simulated import Process
from tests.fakes.spark_rig import wanted
from tests.models.fence_broker import SOURCE
from tests.models.fence_workers import CONNECTOR, SESSION_S, Task
from tests.models.landing_broker import PARTITIONS, RATES, LandingBroker
from tests.models.landing_tasks import TASKS, SourceProcess
from tests.models.sharing_workers import ConfigTopic, SharingMachines, SharingWorker
from tests.models.watch import BrokenPromiseError
from tests.models.worker_life import Incident, Schedule, WorkerLife, disturb

# For so long members may take to join again. As rebalance.timeout.ms, but shorter, so that schedules meet it.
REBALANCE_S: Final = 12.0


class SharingLife(WorkerLife[SharingWorker]):
    """Workers and the three partitions of a connector with up to three tasks. Requests may arrive whenever they like.

    More kinds of incidents than WorkerLife has: `move`: the partitions are assigned anew to as many or other tasks.
    `config`: so they are, and every task's config changes. `end`: a worker is killed, and another one starts in its place.
    `leave`: it is asked to end. `spark`: its Spark dies. `epoch`: the time of a process's epoch is over. `paused`: the
    connector is, and resumed later. `behind`: a worker reads nothing of the config topic for a while. `number` says how.
    `whom`: a task's process, its worker, its whole machine, or the machine of the group's leader.
    """

    patience_s = int(SESSION_S + REBALANCE_S + 2 * LANDING_S) + 30
    rates = RATES

    def __init__(self, schedule: Schedule, *, fences: bool = True) -> None:
        super().__init__(schedule, late=True)
        self.broker = LandingBroker(fences=fences, allowed=None)
        self.topic = ConfigTopic(self.world)
        self.group.rebalance_s = REBALANCE_S
        self.machines = SharingMachines(self.world, self.broker, self.group, topic=self.topic)
        self._config = self._born = 0
        self._ending: set[SharingWorker] = set()
        self._assign(2)
        for number in range(len(schedule.rates)):
            self.machines.workers.append(self._new_worker(number))
            self.world.run(1.0)

    def _new_worker(self, number: int) -> SharingWorker:
        self._born += 1
        process = Process(
            self.world, f"w{number}.{self._born}", offset=1000.0 * number, rate=self.schedule.rates[number]
        )
        worker = process.made(lambda: SharingWorker(cast("SharingMachines", self.machines), process))
        process.start(worker.work())
        return worker

    @property
    def workers(self) -> list[SharingWorker]:
        return cast("list[SharingWorker]", self.machines.workers)

    def leader(self) -> SharingWorker:
        leads = (each for each in self.workers if each.membership.member_id == self.group.leader)
        return next(leads, self.workers[0])

    def _assign(self, number: int) -> None:
        tasks, turn = 1 + number % len(TASKS), number // len(TASKS)
        partitions = [TopicPartition(SOURCE, each) for each in range(PARTITIONS)]
        turned = partitions[turn % len(partitions) :] + partitions[: turn % len(partitions)]
        assigned = dict(zip(TASKS, assign(turned, tasks), strict=False))
        kind = f"X{self._config}"
        self.topic.put_tasks(kind, assigned)
        self.machines.wanted = {task: wanted(kind, *map(str, each)) for task, each in assigned.items()}

    # Incidents.

    def _meet(self, incident: Incident) -> None:
        if incident.whom == "leader":
            worker = self.leader()
            task = worker.newest(TaskId(CONNECTOR, incident.task))
        else:
            task = self._newest(TaskId(CONNECTOR, incident.task))
            found = task.worker if task is not None else self.workers[incident.number % len(self.workers)]
            worker = cast("SharingWorker", found)
        if incident.at == "now" or task is None:
            self.happen(incident, worker, task, before=True)
            return
        self.machines.armed[f"{incident.at} of {incident.task}"] = lambda task, before: self.happen(
            incident, cast("SharingWorker", task.worker), task, before=before
        )
        if incident.at.endswith("epoch"):
            task.die()

    def _newest(self, task: TaskId) -> Task | None:
        found = [each.newest(task) for each in self.workers]
        return max((each for each in found if each is not None), key=lambda each: each.pid, default=None)

    def happen(self, incident: Incident, worker: SharingWorker, task: Task | None, *, before: bool) -> None:
        match incident.kind:
            case "move" | "config":
                self._config += incident.kind == "config"
                self._assign(incident.number)
            case "end" | "leave" if worker in self.workers and worker not in self._ending:
                self._end(worker, incident)
            case "restart" if not worker.process.alive:
                return
            case "paused":
                self._pause(incident.seconds)
            case "behind":
                self.trouble_until = max(self.trouble_until, self.world.now + incident.seconds)
                worker.reads_from = worker.process.time() + incident.seconds
            case "spark" if worker.process.alive:
                worker.spark_dies()
            case "epoch" if isinstance(task, SourceProcess) and task.process.alive:
                task.process.call_soon(task.end_epoch)
        if incident.whom in ("machine", "leader") and incident.kind in ("pause", "cut", "deaf", "late"):
            # All that runs on it.
            self.trouble_until = max(self.trouble_until, self.world.now + incident.seconds + 1.0)
            running = [each.process for each in worker.tasks.values() if each.process.alive]
            for process in (worker.process, *running):
                disturb(process, incident.kind, incident.seconds, before=before)
            return
        super().happen(incident, worker, task, before=before)

    def _pause(self, seconds: float) -> None:
        self.topic.put_target_state(PAUSED)
        self.trouble_until = max(self.trouble_until, self.world.now + seconds + 1.0)
        self.world.after(seconds, lambda: self.topic.put_target_state(STARTED))

    def _end(self, worker: SharingWorker, incident: Incident) -> None:
        """It ends, and another one starts in its place, after a while."""
        number = self.workers.index(worker)
        self._ending.add(worker)
        if incident.kind == "end":
            worker.kill()
        else:
            worker.process.start(worker.leave())

        def replace() -> None:
            if worker.process.alive:  # it was suspended in its last words
                worker.kill()
            self.workers[number] = self._new_worker(number)

        self.trouble_until = max(self.trouble_until, self.world.now + incident.seconds + 5.0)
        self.world.after(incident.seconds + 5.0, replace)

    # What must hold.

    def look(self) -> None:
        super().look()
        # Who has a lease: what its runs hold is not held by others.
        held: list[tuple[str, TaskId, Partitions]] = []
        for worker in self.workers:
            if worker.process.alive and not worker.process.suspended and worker.membership.runs_for() > 0:
                for run in worker.supervisor.runs:
                    if run.may_write:
                        held.append((worker.url, run.task, run.owned))
        for number, (url, task, owned) in enumerate(held):
            for other_url, other, theirs in held[:number]:
                if task == other and url != other_url:
                    raise BrokenPromiseError(f"task {task} runs on {url} and on {other_url}")
                if owned & theirs:
                    raise BrokenPromiseError(
                        f"{sorted(owned & theirs)} are held by {task} on {url} and {other} on {other_url}"
                    )

    def goes_on(self) -> bool:
        return not self.waiting() and all(
            sum(each.events.of(task)[-1:] == [RUNNING] for each in self._runners(task)) == 1
            for task in self.machines.wanted
        )

    def _runners(self, task: TaskId) -> list[SharingWorker]:
        return [
            each
            for each in self.workers
            if each.process.alive and any(run.task == task and not run.is_over for run in each.supervisor.runs)
        ]

    def waiting(self) -> dict[TaskId, set[tuple[str, int]]]:
        runs = [
            run
            for each in self.workers
            if each.process.alive
            for run in each.supervisor.runs
            if not run.is_over and run.may_write
        ]
        assigned = {
            task: set().union(*(run.assigned for run in runs if run.task == task)) for task in self.machines.wanted
        }
        waiting: dict[TaskId, set[tuple[str, int]]] = {
            task: {each for each in wanted.partitions if each not in assigned[task]}
            for task, wanted in self.machines.wanted.items()
        }
        return {task: partitions for task, partitions in waiting.items() if partitions}


def live(schedule: Schedule, *, fences: bool = True) -> None:
    """Goes through it."""
    with closing(SharingLife(schedule, fences=fences)) as life:
        life.run()
