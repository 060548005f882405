"""The life of a task in the fence's model: two workers take it from each other."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

from tests.models.fence_broker import Broker
from tests.models.fence_workers import RATES, Machines, Worker
from tests.models.worker_life import Schedule, WorkerLife

WORKERS: Final = 2


@dataclass(frozen=True)
class Setting:
    """What may be counted on. `fences`: tasks have the right to their transactional id. `late`: requests may arrive when the
    lease is long over. `lies`: clocks stand still while a process is suspended.
    """

    fences: bool = True
    late: bool = False
    lies: bool = False


class Life(WorkerLife[Worker]):
    """Two workers in their group, and the task of the one that leads."""

    # As long as a silent task, a session and the pauses of one that is fenced again and again.
    patience_s = 150
    rates = RATES

    def __init__(self, schedule: Schedule, setting: Setting) -> None:
        super().__init__(schedule, late=setting.late)
        lease_holds = not setting.late and not setting.lies
        self.broker = Broker(fences=setting.fences, allowed=self.leads if lease_holds else None)
        self.machines = Machines(self.world, self.broker, self.group)
        self.start_workers(Worker, lies=setting.lies)


def live(schedule: Schedule, setting: Setting) -> None:
    """Goes through it."""
    with closing(Life(schedule, setting)) as life:
        life.run()
