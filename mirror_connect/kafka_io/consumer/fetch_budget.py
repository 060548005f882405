"""Limits the fetched bytes that a task holds in memory, and shares them fairly between brokers and partitions.

It counts whole frames, because a partition's slice keeps all of its frame alive, and the room reserved for answers.
"""

from __future__ import annotations

from typing import Final

_LEAST: Final = 256 << 10


class FetchBudget:
    """Allows `limit` bytes in all. One batch per queue may exceed it, if it is larger than requested."""

    def __init__(self, limit: int, request_max: int, partition_max: int) -> None:
        self.limit = limit
        self.used = 0
        self._reserved = 0
        self._request_max = request_max
        self._partition_max = partition_max
        self.loaded_partitions = 0

    @property
    def is_tight(self) -> bool:
        """Whether more than half is in use: then the target is slower, and copying is cheaper than keeping frames alive."""
        return self.used > self.limit // 2

    def grow(self, limit: int, request_max: int) -> None:
        """Allows so much in all and in an answer, if that is more."""
        self.limit = max(self.limit, limit)
        self._request_max = max(self._request_max, request_max)

    def reserve(self, queues: int) -> int:
        """Reserves room for an answer in one of so many queues; 0 if there is too little at present.

        There is one share more than queues, so that one answer can be processed while the next one comes.
        """
        share = max(1, min(self._request_max, self.limit // (queues + 1)))
        room = min(share, self.limit - self.used - self._reserved)
        # Very little room isn't worth a request. But when nothing is in use, one request must always be possible.
        if room < share // 4:
            return 0
        self._reserved += room
        return room

    def unreserve(self, size: int) -> None:
        """The answer has come, or will never come."""
        self._reserved -= size

    def take(self, size: int) -> None:
        """A frame has come and is kept."""
        self.used += size

    def free(self, size: int) -> None:
        """A frame is no longer needed."""
        self.used -= size

    def partition_cap(self, released: int) -> int:
        """How many bytes one partition may hold unreleased. With k loaded ones, a (k+1)th has as much room as each.

        `released`: how many of its bytes were released so far. The cap begins small: the target may accept nothing of the
        partition, and many such partitions would fill the buffer.
        """
        return min(self.limit // (1 + self.loaded_partitions), _LEAST + released)

    def most_loaded(self, held: int, released: int) -> int:
        """With how many loaded partitions at most one of them may hold so much; -1: it has to release some first."""
        return -1 if held > _LEAST + released else self.limit // max(1, held) - 1

    def partition_bytes(self, released: int) -> int:
        """How much to fetch of one partition: in steps of two, so that small changes do not alter the session's entries."""
        cap = self.limit // (1 + self.loaded_partitions)
        size = self._partition_max
        while size > cap // 2 and size > _LEAST:
            size //= 2
        return max(1, min(size, _LEAST + released))
