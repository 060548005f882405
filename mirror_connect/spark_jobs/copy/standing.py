"""The partitions of a task that stand still, as its status shows them: a line each, and not more than fit a page.

Which they are and when they are tried again: standing_partitions.py. Why a task with some of them runs: docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.kafka_io.consumer.fetcher import SourcePartition

MOST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """Why a partition stands still in front of a source offset. `wait`: seconds until it is tried again.

    `for_good`: time won't heal it, only what the line says. `topic_id`: of the topic that the offset is of, if known.
    """

    line: str
    offset: int
    wait: float
    for_good: bool
    topic_id: bytes | None = None


def told(lines: Mapping[SourcePartition, str], common: Iterable[str] = ()) -> tuple[str, ...]:
    """The lines in the order of the partitions, each once (a broker that is away concerns many), the last one a count.

    `common`: what concerns more than a partition; first, and without the empty ones.
    """
    every = (*(line for line in common if line), *(lines[partition] for partition in sorted(lines)))
    different = list(dict.fromkeys(every))
    if len(different) <= MOST_LINES:
        return tuple(different)
    return (*different[:MOST_LINES], f"… and {len(different) - MOST_LINES} more lines like these")
