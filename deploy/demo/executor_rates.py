"""What the executors of the demo do: how many tasks copy in each, and how many bytes a second these write to kafka-2.

The kernel counts what a process writes (/proc/PID/io), so nothing of the product tells these figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psutil

from deploy.local.spark_executor import Executor

EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one executor. `processes`: its tasks' that are connected to the target."""

    executor: Executor
    processes: frozenset[int]
    bytes_per_second: float


class ExecutorRates:
    """`port`: the target's. What was measured is kept for a second."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._at = time.monotonic()
        self._written: dict[int, int] = {}
        self._rates: list[Rate] = []

    def look(self, executors: Callable[[], list[Executor]]) -> list[Rate]:
        """The rates since the last look, a second ago or more. `executors` finds those that live."""
        now = time.monotonic()
        if self._rates and now - self._at < EVERY_S:
            return self._rates
        found = {executor: self._at_work(executor) for executor in executors()}
        rates = []
        for executor, written in found.items():
            grown = sum(count - self._written[pid] for pid, count in written.items() if pid in self._written)
            rates.append(Rate(executor, frozenset(written), grown / (now - self._at)))
        self._written = {pid: count for written in found.values() for pid, count in written.items()}
        self._at, self._rates = now, rates
        return rates

    def _at_work(self, executor: Executor) -> dict[int, int]:
        """Process id → bytes written so far, of tasks with a connection to the target. Spark keeps others for later."""
        found = {}
        for process in executor.tasks():
            try:
                if any(each.raddr and each.raddr.port == self._port for each in process.net_connections("tcp")):
                    found[process.pid] = process.io_counters().write_chars
            except psutil.Error:
                continue
        return found


def told(rates: list[Rate]) -> str:
    """The rates in a line."""
    each = [f"{rate.executor.id}: {len(rate.processes)} tasks {rate.bytes_per_second / 1e6:.1f} MB/s" for rate in rates]
    return f"executors {', '.join(each)}"
