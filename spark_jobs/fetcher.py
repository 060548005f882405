"""Record batches out of the source cluster: one long-polling fetch per broker, with incremental sessions.

How mirror_source uses it (all in one event loop)::

    fetcher = Fetcher(cluster, settings, on_records=take, on_notice=notices.append)
    fetcher.add(SourcePartition("orders", 0), position=17)     # next offset wanted; None = by auto.offset.reset
    await fetcher.run()                                        # until cancelled; never raises for a broker or a partition

`take(fetched)` is called in the loop's thread, in offset order within a partition. It must not block: it puts the value
into the caller's own queue of that partition. The fetcher has no queue: it counts the bytes of every Fetched until
`fetched.release()`, which the caller calls once when it no longer needs `buffer` (its batches are acknowledged, or
copied, or dropped). A partition with too many unreleased bytes is left out of the next fetch, others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirror_connect.kafka_io.cluster import Cluster


class SourcePartition(NamedTuple):
    """A partition of the source cluster."""

    topic: str
    partition: int


@dataclass(eq=False, slots=True)
class Fetched:
    """What one fetch brought of one partition: whole batches only (a cut-off one at the end is not in `buffer`).

    `buffer` may start in the middle of a batch: its first records can lie below `fetch_offset` and are not wanted.
    `next_offset` is one past the last offset of the last batch. `aborted`: (producer id, first offset) of the aborted
    transactions that overlap (read_committed only). `last_stable_offset` and `log_start` are -1 if the broker didn't say.
    """

    partition: SourcePartition
    buffer: memoryview
    fetch_offset: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]

    def release(self) -> None:
        """The bytes are no longer needed; frees room for further fetches. Calling it twice does nothing more."""


class PartitionState(NamedTuple):
    """Where a partition stands: next offset to fetch (None: not known yet), end and start of its log as last heard.

    `error`: one line, when the partition can't be read at present; "" otherwise. `failed`: it will not be tried again.
    """

    position: int | None
    high_watermark: int
    log_start: int
    error: str
    failed: bool


class Fetcher:
    """Fetches the added partitions until `run` is cancelled. Not thread-safe; everything in one event loop.

    `settings`: Java consumer properties (fetch.min.bytes, fetch.max.wait.ms, fetch.max.bytes, max.partition.fetch.bytes,
    isolation.level, client.rack, auto.offset.reset, metadata.max.age.ms, retry.backoff.ms …).
    `buffer_limit_bytes` bounds unreleased and in-flight bytes together (exceeded by at most one batch per broker).
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Mapping[str, str],
        *,
        on_records: Callable[[Fetched], None],
        on_notice: Callable[[str], None],
        buffer_limit_bytes: int = 32 << 20,
    ) -> None: ...

    def add(self, partition: SourcePartition, position: int | None) -> None:
        """Start fetching at `position` (the next offset wanted); None lets auto.offset.reset decide."""

    def remove(self, partition: SourcePartition) -> None:
        """Stop fetching: no call of on_records for it after this one. What was handed over stays valid until released."""

    def state(self, partition: SourcePartition) -> PartitionState:
        """Where an added partition stands; raises KeyError for another."""
        raise NotImplementedError

    def pause(self) -> None:
        """Send no further fetch and hand nothing over (a task that is told to finish); `resume` undoes it."""

    def resume(self) -> None:
        """Go on after `pause`."""

    async def run(self) -> None:
        """Fetch until cancelled. Raises NotAuthorized when the cluster refuses the credentials, nothing else."""
