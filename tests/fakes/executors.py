"""A made-up cluster of executors that the driver tells of."""

from __future__ import annotations

from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.executor_placement import ExecutorPlacement
from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.task_protocol import TaskId, TaskReport


class Cluster:
    """Executors and the runs on them; `now` is the time."""

    def __init__(self, *executors: SparkExecutor) -> None:
        self.now = 100.0
        self.runs: list[TaskRun] = []
        self.executors = ClusterExecutors(lambda: self.now, lambda: self.runs)
        self.placement = ExecutorPlacement(lambda: self.runs, self.executors)
        self.executors.told(executors)

    def run(self, connector: str, executor: str = "") -> TaskRun:
        """One more task; on no executor, or at work on this one."""
        run = TaskRun(TaskId(connector, len(self.runs)), {}, frozenset(), since=self.now)
        if executor:
            run.begin_attempt(f"attempt {len(self.runs)}", self.now, executor=executor)
            run.phase = Phase.RUNNING
            run.report = TaskReport(run.attempt or "", 1, "RUNNING", settled=True, executor=executor)
            run.granted_until = self.now + 6
        self.runs.append(run)
        return run


def executor(name: str, host: str = "", slots: int = 4, **more: float | bool) -> SparkExecutor:
    """One as the driver reports it; on a host of its own, if none is given."""
    return SparkExecutor(name, host or f"host{name}", slots, **more)  # type: ignore[arg-type]
