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
    """

    executor: str
    host: str
    slots: int
    tasks: int = field(default=0, compare=False)
    draining: bool = False

    @staticmethod
    def from_json(told: dict[str, Any]) -> SparkExecutor:
        """From the driver's report."""
        return SparkExecutor(told["id"], told["host"], told["slots"], told.get("tasks", 0), told.get("draining", False))


def named(executors: Sequence[SparkExecutor]) -> str:
    """`executor 0 on a: 4 slots, executor 1 on b: 4 slots`."""
    shown = [f"executor {each.executor} on {each.host}: {counted(each.slots, 'slot')}" for each in executors]
    more = [f"{len(shown) - _MOST_NAMED} more"] if len(shown) > _MOST_NAMED else []
    return ", ".join(shown[:_MOST_NAMED] + more)


def no_executor_line(master: str, since: str) -> str:
    """Why no task runs, and where to look; `since` is a time of day."""
    look = _LOOK.get(kind_of(master), "")
    return f"No executor of spark.master={master} since {since}: tasks wait for one. {look}".rstrip() + "."
