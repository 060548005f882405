"""A life in the transactions' model: tasks with one transactional id, one after the other or beside each other, and trouble.

What must hold of it: a reader of committed records sees each number once and in order; the committed positions are those of
exactly the committed numbers, in each transaction; nothing stays open; and in the end all numbers of the source are there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.simulated import Process, World
from tests.fakes.transaction_broker import Protocol, TransactionBroker, TransactionLog
from tests.fakes.transactional_target import ID, keyed_numbers, numbers
from tests.models.transaction_task import OFFSETS, PARTITIONS, TIMEOUT_S, TOPIC, Task, positions
from tests.models.watch import BrokenPromiseError

RATE: Final = 8
# Longer than a lost request, a timed-out transaction and the pauses behind repeated aborts.
CALM_S: Final = 25.0
# Longer than a request under way: behind that, nothing of an incident comes any more.
UNDER_WAY_S: Final = 4.0
RESTART_S: Final = 0.5


@dataclass(frozen=True)
class Incident:
    """`wait` seconds after the one before, to the newest task or to the brokers, for some `seconds`.

    `pause`: suspended. `cut`: nothing gets through. `late`: what is sent within this time arrives so much later, unanswered.
    `kill`: and started again. `usurp`: another one begins beside it. `forget`: brokers forget producers. `move`: the
    coordinator moves. `refuse`, `hide`: a topic's batches are not written, or seem not to be. `slow`: markers are.
    """

    wait: float
    kind: str
    seconds: float
    topic: str = TOPIC


@dataclass(frozen=True)
class Schedule:
    incidents: tuple[Incident, ...]
    protocol: Protocol
    net: int


class Life:
    """Raises BrokenPromiseError."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.world = World(schedule.net)
        self.dice = random.Random(schedule.net)
        self.broker = TransactionBroker(schedule.protocol, lambda: self.world.now, self.world.after)
        self.broker.marking = lambda: self.dice.uniform(0.001, 0.03)
        self.broker.decided = self._decided
        self.tasks: list[Task] = []
        self.runs: list[Any] = []
        self.broken: BrokenPromiseError | None = None
        self._moved_until = self._trouble_until = 0.0
        self._source_ends = False
        self._source_end = 0

    def run(self) -> None:
        self._expire()
        self._begin()
        self.world.run(1.5)
        for incident in self.schedule.incidents:
            self.world.run(incident.wait)
            self._meet(incident)
            self._look()
        self.world.run(max(0.0, self._trouble_until - self.world.now) + UNDER_WAY_S)
        # Whoever is behind has that long; if nobody is, nothing else would happen in it.
        there = int(self.world.now * RATE)
        self._run_until(lambda: min(positions(self.broker)) >= there, CALM_S)
        self._look()
        self._source_end, self._source_ends = int(self.world.now * RATE), True
        ends = {where: log.end for where, log in self.broker.logs.items()}
        self._run_until(lambda: self._closed(ends) and self._is_all_there(), TIMEOUT_S)
        if not self._closed(ends):
            raise BrokenPromiseError(f"a transaction stays open: {self.broker.ids[ID]}")
        self._look()
        self._all_is_there()

    def _run_until(self, reached: Callable[[], bool], seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until and not reached():
            self.world.run(min(1.0, until - self.world.now))

    def _closed(self, ends: Mapping[Any, int]) -> bool:
        return all(self.broker.logs[where].stable_end >= end for where, end in ends.items())

    def close(self) -> None:
        self.world.close()

    def _source(self) -> int:
        return self._source_end if self._source_ends else int(self.world.now * RATE)

    def _begin(self) -> None:
        process = Process(self.world, f"task-{len(self.tasks)}")
        task = Task(process, self.broker, lambda: self.world.now < self._moved_until, self._source)
        self.tasks.append(task)
        self.runs.append(process.start(task.run()))

    def _expire(self) -> None:
        self.broker.expire()
        self.world.after(0.5, self._expire)
        # A worker starts its task again when it was fenced.
        if self.runs and self.runs[-1].done() and self.tasks[-1].process.alive:
            self._raise(self.runs[-1])
            self.tasks[-1].process.kill()
            self._begin()

    def _meet(self, incident: Incident) -> None:
        process, seconds = self.tasks[-1].process, incident.seconds
        self._trouble_until = max(self._trouble_until, self.world.now + seconds + 1.0)
        if incident.kind == "pause":
            process.suspend(seconds)
        elif incident.kind == "cut":
            process.cut(seconds)
        elif incident.kind == "late":
            process.late(min(seconds, 1.0), seconds)
        elif incident.kind == "kill":
            process.kill()
            self.world.after(RESTART_S, self._begin)
            self.world.run(RESTART_S + 0.001)
        elif incident.kind == "usurp":
            self._begin()
        elif incident.kind == "forget":
            # It takes a day without a record. Brokers that verify nothing would then let a zombie write, and none is as old.
            if self.schedule.protocol is Protocol.OLD and sum(not run.done() for run in self.runs) > 1:
                return
            for log in self.broker.logs.values():
                log.forget()
        elif incident.kind == "move":
            self._moved_until = self.world.now + seconds
        elif incident.kind == "slow":
            self.broker.marking = lambda: self.dice.uniform(0.0, seconds)
            self.world.after(2.0, self._marks_soon)
        else:
            codes = self.broker.refuses if incident.kind == "refuse" else self.broker.hides
            codes[incident.topic] = 19 if incident.kind == "refuse" else 7
            self.world.after(min(seconds, 4.0), lambda: codes.pop(incident.topic, None))

    def _marks_soon(self) -> None:
        self.broker.marking = lambda: self.dice.uniform(0.001, 0.03)

    def _decided(self, name: str, committed: bool) -> None:
        """What is about to be committed: its positions are those of the data that is there then."""
        if not committed:
            return
        producer_id = self.broker.ids[name].producer_id
        written: dict[int, int] = {}
        known = self.broker.log(OFFSETS).producers.get(producer_id)
        for each in known.open if known is not None else []:
            for key, number in keyed_numbers(each.payload):
                written[int(key)] = number
        before = positions(self.broker)
        for partition in range(PARTITIONS):
            there = self._with_open(self.broker.log(TOPIC, partition), producer_id)
            position = written.get(partition, before[partition])
            if there != list(range(position)):
                what = (
                    f"position {position} of partition {partition} is committed with {there[-5:]}, {len(there)} in all"
                )
                self.broken = self.broken or BrokenPromiseError(what)

    @staticmethod
    def _with_open(log: TransactionLog, producer_id: int) -> list[int]:
        known = log.producers.get(producer_id)
        entries = [*log.committed(beyond_stable=True), *(known.open if known is not None else [])]
        entries.sort(key=lambda entry: entry.base)
        return [number for each in entries for _, number in keyed_numbers(each.payload)]

    def _look(self) -> None:
        for run in self.runs:
            if run.done():
                self._raise(run)
        if self.broken is not None:
            raise self.broken

    @staticmethod
    def _raise(run: Any) -> None:
        if not run.cancelled() and run.exception() is not None:
            raise BrokenPromiseError(f"a task failed: {run.exception()!r}") from run.exception()

    def _is_all_there(self) -> bool:
        try:
            self._all_is_there()
        except BrokenPromiseError:
            return False
        return True

    def _all_is_there(self) -> None:
        for partition in range(PARTITIONS):
            log = self.broker.log(TOPIC, partition)
            found = numbers(log)
            if found != list(range(self._source_end)):
                wrong = next((n for n, each in enumerate(found) if n != each), len(found))
                raise BrokenPromiseError(
                    f"partition {partition}: {len(found)} of {self._source_end} numbers, wrong from {wrong} on"
                )
        if positions(self.broker) != [self._source_end] * PARTITIONS:
            raise BrokenPromiseError(f"positions {positions(self.broker)}, {self._source_end} numbers")


def live(schedule: Schedule) -> None:
    """Goes through it."""
    with closing(Life(schedule)) as life:
        life.run()
