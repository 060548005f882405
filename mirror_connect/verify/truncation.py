"""Whether logs that were compared are still those that were read: an unclean leader election takes records from them.

A log may have grown past what it lost: its leader is asked where the epoch ended in which the comparison began (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mirror_connect.kafka_io.consumer.record_reader import Told
from mirror_connect.verify.place import LATEST, CannotCompareError, Key, Partition, Place


class Logs(Protocol):
    """The partitions of one cluster."""

    place: Place

    async def told(self, wanted: Mapping[Key, int]) -> tuple[dict[Key, Told], str]:
        """Offset and leader epoch of each, and why those are missing that nobody told."""

    async def epoch_end(self, key: Partition, epoch: int) -> int | None:
        """Where the last leader epoch not above this one ended. CannotCompareError."""


async def truncations(logs: Logs, ends: Mapping[Partition, Told]) -> dict[Partition, str]:
    """A line for each partition that has lost something below the end it had, or of which nobody tells whether it has."""
    now, why = await logs.told(dict.fromkeys(ends, LATEST))
    lines = {}
    for key, before in ends.items():
        unknown = f"whether the {logs.place}'s log was truncated meanwhile nobody tells"
        if key not in now:
            lines[key] = f"{unknown}: {why}"
            continue
        try:
            at = await _reaches(logs, key, before.epoch, now[key])
        except CannotCompareError as error:
            lines[key] = f"{unknown}: {error}"
            continue
        if at < (before.offset or 0):
            lines[key] = (
                f"the {logs.place}'s log of {key} was truncated at offset {at} meanwhile, as by an unclean leader "
                f"election, it had {before.offset} when the comparison began: run it again"
            )
    return lines


async def _reaches(logs: Logs, key: Partition, epoch: int, now: Told) -> int:
    """Up to where the log is the one that a leader of this epoch had."""
    end = now.offset or 0
    # A leader doesn't truncate its own log.
    if epoch < 0 or now.epoch in (epoch, -1):
        return end
    ended = await logs.epoch_end(key, epoch)
    return end if ended is None else min(end, ended)
