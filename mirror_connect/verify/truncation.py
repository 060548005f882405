"""Whether a log was truncated during the comparison, as by an unclean leader election.

A log may have grown beyond its former end since. So its leader is asked where the leader epoch of the comparison's start
ended (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.record_reader import ListedOffset
from mirror_connect.verify.clusters import LATEST, ClusterRole
from mirror_connect.verify.errors import CannotCompareError


class Logs(Protocol):
    """The partitions of one cluster."""

    role: ClusterRole

    async def listed_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, ListedOffset], str]:
        """Offset and leader epoch of each partition; and why some are missing, if no broker answered for them."""

    async def epoch_end(self, key: TopicPartition, epoch: int) -> int | None:
        """The end offset of the last leader epoch up to this one. CannotCompareError."""


async def truncations(logs: Logs, ends: Mapping[TopicPartition, ListedOffset]) -> dict[TopicPartition, str]:
    """A line for each partition whose log was truncated below its former end, or of which this is unknown."""
    now, why = await logs.listed_offsets(dict.fromkeys(ends, LATEST))
    lines = {}
    for key, before in ends.items():
        unknown = f"it is unknown whether the {logs.role}'s log was truncated during the comparison"
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
                f"the {logs.role}'s log of {key} was truncated at offset {at} during the comparison, as by an unclean "
                f"leader election. It ended at offset {before.offset} before: run verify again"
            )
    return lines


async def _reaches(logs: Logs, key: TopicPartition, epoch: int, now: ListedOffset) -> int:
    """The offset up to which the log is still that of the leader of this epoch."""
    end = now.offset or 0
    # A leader doesn't truncate its own log.
    if epoch < 0 or now.epoch in (epoch, -1):
        return end
    ended = await logs.epoch_end(key, epoch)
    return end if ended is None else min(end, ended)
