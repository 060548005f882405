"""The reason why a partition of a source task is stalled.

stalled_partitions.py keeps these, and tries the partitions again. docs/decisions/0013 says why their task keeps running.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror_connect.connectors.problems import Problem


@dataclass(frozen=True, slots=True)
class StalledPartition:
    """A partition that is stalled before a source offset. `wait`: seconds until it is tried again.

    `for_good`: only a user can solve it, by the problem's advice. `topic_id`: of the offset's topic, if known.
    """

    problem: Problem
    offset: int
    wait: float
    for_good: bool
    topic_id: bytes | None = None
