"""What the other workers of the group may still write, and so which of them a partition that moved to this worker waits for.

Each worker tells the group which commit of a connector's task configs it has confirmed: it has given up all that this commit
does not give to it (hand_over.py). It tells that of each connector of which it holds anything. A worker that was lost tells
nothing more: what it has sent may be written until LANDING_S after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.clock import utc

# As long as a Kafka client waits for an answer by default. After that, requests of a process have landed, or never will.
LANDING_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class OtherWorker:
    """Another member of the group, or a former one. `worker_id`: host and port, for people.

    `confirmed`: for each connector of which it holds anything, the offset of the commit up to which it has confirmed.
    `lost_s`: how many seconds ago it was lost, at most; None: it is a member.
    """

    worker_id: str
    confirmed: Mapping[str, int]
    lost_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    worker: OtherWorker
    until: float
    until_text: str


class OtherWorkers:
    """See the module. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: tuple[_Known, ...] = ()

    def update(self, workers: Iterable[OtherWorker]) -> None:
        """The group's newest assignment has these. Until the next one they count as unchanged."""
        self._known = tuple(self._known_as(worker) for worker in workers)

    def _known_as(self, worker: OtherWorker) -> _Known:
        if worker.lost_s is None:
            return _Known(worker, float("inf"), "")
        left = LANDING_S - worker.lost_s
        return _Known(worker, self._clock() + left, utc(time.time() + left))

    @property
    def are_there(self) -> bool:
        """Whether this worker is not the only member of its group."""
        return any(each.worker.lost_s is None for each in self._known)

    def confirmed(self, connector: str, read: float = float("inf")) -> float:
        """The newest commit that all of them have confirmed, infinite if none of them holds anything of the connector.

        `read`: how far this worker has read the config topic. A worker that has confirmed a later commit may hold partitions
        by it that this worker does not know of yet. So until this worker has read as far, that one counts as -1.
        """
        told = (each.worker.confirmed[connector] for each in self._holders(connector))
        return min((each if each <= read else -1 for each in told), default=float("inf"))

    def why(self, connector: str, since: float, read: float = float("inf")) -> str:
        """Which workers a partition waits for that others had before the commit `since`, as a line for people."""
        alive: list[str] = []
        lost: list[str] = []
        for each in self._holders(connector):
            if each.worker.confirmed[connector] > read:
                alive.append(f"this worker has not read the config topic as far as worker {each.worker.worker_id} yet")
            elif each.worker.confirmed[connector] < since:
                if each.worker.lost_s is None:
                    alive.append(f"worker {each.worker.worker_id} has not given them up yet")
                else:
                    lost.append(_was_lost(each))
        return "; ".join((*alive, *lost))

    def lost(self, connector: str) -> str:
        """The lost workers whose requests may still land; empty if there are none."""
        return "; ".join(_was_lost(each) for each in self._holders(connector) if each.worker.lost_s is not None)

    def over(self) -> set[str]:
        """Forgets lost workers whose requests can't land any more; returns the connectors that waited for them."""
        now = self._clock()
        gone = [each for each in self._known if each.until <= now]
        if gone:
            self._known = tuple(each for each in self._known if each.until > now)
        return {connector for each in gone for connector in each.worker.confirmed}

    def _holders(self, connector: str) -> list[_Known]:
        now = self._clock()
        return [each for each in self._known if connector in each.worker.confirmed and each.until > now]


def _was_lost(known: _Known) -> str:
    return (
        f"worker {known.worker.worker_id} was lost, and what it has sent may still be written until {known.until_text}"
    )
