"""The life of a connector whose tasks are on a Spark cluster: its executors freeze, are lost, are cut off, and come back."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar, cast

from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.app.supervisor.process_ends import REMOTE_LEASE_S
from tests.models.fence_workers import Task
from tests.models.landing_life import Life
from tests.models.landing_tasks import ConnectorWorker
from tests.models.remote_cluster import Executor, RemoteProcess, RemoteWorker
from tests.models.worker_life import Incident, Schedule


class RemoteLife(Life):
    """As the landing's life, with other kinds of incidents, of the executor where the task runs.

    `freeze`: SIGSTOP to all of it. `host`: all of it is gone. `jvm`: its JVM is gone, and its tasks are orphans. `net`: it
    is cut off. `link`: from the worker alone. `reborn`: all of it is gone, and the host of the next one is frozen before any
    task begins there. All but `host` and `jvm` are over after the incident's seconds. But the others have to go on without
    it, within lease + 30 s and what a start takes.
    """

    patience_s = int(REMOTE_LEASE_S + LANDING_S) + 12
    worker_class: ClassVar[type[ConnectorWorker]] = RemoteWorker

    def happen(self, incident: Incident, worker: ConnectorWorker, task: Task | None, *, before: bool) -> None:
        remote, executor = cast("RemoteWorker", worker), task.executor if isinstance(task, RemoteProcess) else None
        if incident.kind not in {"freeze", "host", "jvm", "net", "link", "reborn"}:
            super().happen(incident, worker, task, before=before)
        elif executor is not None and executor.alive:
            # Not at once: the process may be at work in this moment.
            self.world.after(0.0, lambda: self._meets(incident, remote, executor))

    @staticmethod
    def _meets(incident: Incident, worker: RemoteWorker, executor: Executor) -> None:
        match incident.kind:
            case "freeze":
                worker.freeze(executor, incident.seconds)
            case "host" | "jvm":
                worker.end_executor(executor, orphans=incident.kind == "jvm")
            case "reborn":
                worker.end_executor(executor, next_frozen_s=incident.seconds)
            case "net" | "link":
                worker.cut(executor, incident.seconds, brokers=incident.kind == "net")


def live_there(schedule: Schedule, *, fences: bool = True) -> None:
    """Goes through it."""
    with closing(RemoteLife(schedule, fences=fences)) as life:
        life.run()
