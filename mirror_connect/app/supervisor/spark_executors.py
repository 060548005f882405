"""The executors that a cluster has given Spark, as the driver reports them, and what to say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.spark_masters import Kind, kind_of
from mirror_connect.connectors.wording import counted

# More would hide the rest of a line.
_MOST_NAMED: Final = 8
_LOOK: Final = {
    Kind.STANDALONE: "Its page shows whether Spark workers are there, and cores and memory free",
    Kind.YARN: "The page of YARN's application shows whether its queue has room",
    Kind.KUBERNETES: "Look with kubectl whether pods of executors are there, and what they wait for",
}


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """An executor: Spark's id, its host as Spark names it, and how many tasks it runs at a time.

    `tasks`: how many Spark has there now. `draining`: it is being decommissioned, and gets no other ones.
    `silent_s`: for how long its JVM has not answered Spark's driver.
    """

    executor: str
    host: str
    slots: int
    tasks: int = field(default=0, compare=False)
    draining: bool = False
    silent_s: float = field(default=0.0, compare=False)

    @staticmethod
    def from_json(told: dict[str, Any]) -> SparkExecutor:
        """From the driver's report."""
        more = {name: told[name] for name in ("tasks", "draining", "silent_s") if name in told}
        return SparkExecutor(told["id"], told["host"], told["slots"], **more)


def named(executors: Sequence[SparkExecutor]) -> str:
    """`executor 0 on a: 4 slots, executor 1 on b: 4 slots`."""
    shown = [f"executor {each.executor} on {each.host}: {counted(each.slots, 'slot')}" for each in executors]
    more = [f"{len(shown) - _MOST_NAMED} more"] if len(shown) > _MOST_NAMED else []
    return ", ".join(shown[:_MOST_NAMED] + more)


@dataclass(frozen=True, slots=True)
class MissingExecutor:
    """What an executor has to get before it starts, by Spark's settings; `cores`: empty for all of a Spark worker.

    `workers`: cores and MiB of memory of each Spark worker of a standalone master; None if it does not tell.
    """

    memory: str
    cores: str = ""
    workers: tuple[tuple[int, int], ...] | None = None

    @staticmethod
    def from_json(told: dict[str, Any]) -> MissingExecutor:
        """From the driver's report."""
        workers = told.get("workers")
        return MissingExecutor(
            told["memory"], told["cores"], None if workers is None else tuple((each[0], each[1]) for each in workers)
        )

    @property
    def line(self) -> str:
        """What is too much, or else what it asks for."""
        if self.workers == ():
            return "The master has no Spark worker."
        largest = max((cores for cores, _ in self.workers or ()), default=None)
        if largest is not None and self.cores.isdigit() and int(self.cores) > largest:
            return f"spark.executor.cores={self.cores} is too large: no Spark worker has more than {largest}."
        cores = f"spark.executor.cores={self.cores} and " if self.cores else ""
        asked = f"An executor asks for {cores}spark.executor.memory={self.memory}"
        if largest is None:
            return f"{asked}."
        memory = max(memory for _, memory in self.workers or ())
        return f"{asked}, and Spark workers have up to {counted(largest, 'core')} and {memory} MiB."


def no_executor_line(master: str, since: str, missing: MissingExecutor | None = None) -> str:
    """Why no task runs, and where to look; `since` is a time of day."""
    look = _LOOK.get(kind_of(master), "")
    asked = f" {missing.line}" if missing is not None else ""
    return f"No executor of spark.master={master} since {since}: tasks wait for one.{asked} {look}".rstrip() + "."
