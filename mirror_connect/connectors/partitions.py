"""Types that all packages share: a topic partition, and the offset that a consumer group has committed in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic on any cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CommittedOffset(NamedTuple):
    """The offset that a consumer group has committed: the one it reads next. `metadata`: text of the client."""

    offset: int
    metadata: str = ""


# Of one group.
CommittedOffsets = Mapping[TopicPartition, CommittedOffset]
