"""Groups' offsets are translated while the source's log is truncated repeatedly, and skip no record."""

from __future__ import annotations

import random

import pytest

from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.connectors.records.offset_syncs import OffsetSyncQueue
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.translation.offset_ranges import RangeRecorder, Segment
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator
from tests.seeds import numbers

ORDERS = TopicPartition("orders", 0)


class Link:
    """A source log that loses its end now and then, its copy, and tasks that are killed.

    A record is a number that no other one has; `copy` are those on the target. `position`: as committed.
    """

    def __init__(self, dice: random.Random, *, ranges: bool) -> None:
        self.dice = dice
        self.records_ranges = ranges
        self.log, self.copy = list[int](), list[int]()
        self.made = 0
        self.position = 0
        self.segments: list[tuple[bytes, bytes]] = []
        self.syncs: list[tuple[bytes, bytes]] = []
        # Up to here the log is the one that was read up to the committed position.
        self.same = 0
        self.begin()

    def begin(self) -> None:
        """A task begins at the committed position; what one before has not committed is read again."""
        self.recorder = RangeRecorder("orders", 0)
        newest = Segment.decode(*self.segments[-1]) if self.segments else None
        self.recorder.resume(newest, self.position if self.position or self.segments else None)
        self.queue = OffsetSyncQueue(self.dice.choice((0, 3, 100)))
        self.at = self.position

    def put(self, count: int) -> None:
        self.log += range(self.made, self.made + count)
        self.made += count

    def mirror(self, count: int) -> None:
        count = min(count, len(self.log) - self.at)
        if count > 0:
            self.recorder.acked(self.at, count, len(self.copy))
            self.queue.acked(ORDERS, self.at, len(self.copy), count)
            self.copy += self.log[self.at : self.at + count]
            self.at += count

    def truncate(self, end: int) -> None:
        del self.log[end:]
        # The fetcher goes back; nothing of that is committed yet.
        self.at, self.same = min(self.at, end), min(self.same, end)

    def commit(self) -> None:
        if self.records_ranges:
            self.segments += self.recorder.changed()
        # Syncs may be lost at any time, and only their order counts.
        self.syncs += [(sync.key(), sync.value()) for sync in self.queue.take() if self.dice.random() < 0.8]
        self.queue.committed()
        self.position = self.same = self.at

    def kill(self) -> None:
        """The next task begins where the position's log diverges from the present one."""
        self.position = self.same
        self.begin()

    def translated(self, offset: int) -> int | None:
        translator = OffsetTranslator(DefaultReplicationPolicy(), ("A", "B"), lambda _topic: True)
        for key, value in self.segments:
            translator.add_ranges(key, value)
        for key, value in self.syncs:
            translator.add_sync(key, value)
        translator.syncs_read_to_end()
        found = translator.checkpoints("g", {ORDERS: CommittedOffset(offset)}, lambda _: None, lambda _: None)
        return found[0].downstream if found else None


# Syncs alone are not safe while a task that was killed repeats records, with MirrorMaker neither (decision 10).
@pytest.mark.parametrize(("ranges", "kills"), [(True, 1), (False, 0)], ids=["by_ranges", "by_syncs_alone"])
@pytest.mark.parametrize("seed", numbers(10, 60))
def test_no_record_that_the_source_has_is_skipped_whatever_was_truncated(seed: int, ranges: bool, kills: int) -> None:
    dice = random.Random(seed)
    link = Link(dice, ranges=ranges)
    for _ in range(60):
        match dice.choices(("put", "mirror", "commit", "truncate", "kill"), (6, 8, 6, 2, kills))[0]:
            case "put":
                link.put(dice.randrange(1, 9))
            case "mirror":
                link.mirror(dice.randrange(1, 9))
            case "commit":
                link.commit()
            case "truncate" if link.log:
                link.truncate(dice.randrange(len(link.log)))
            case "kill":
                link.kill()
        last = {record: at for at, record in enumerate(link.copy)}
        for offset in range(0, len(link.log) + 2, 5):
            found = link.translated(offset)
            skipped = [record for record in link.log[offset:] if record in last and last[record] < (found or 0)]
            assert skipped == []


def test_when_the_log_has_grown_past_what_was_lost_every_position_is_exact_again() -> None:
    link = Link(random.Random(0), ranges=True)
    link.put(100)
    link.mirror(100)
    link.commit()
    link.truncate(40)
    link.put(80)
    for _ in range(8):
        link.mirror(10)
        link.commit()
    assert [link.translated(offset) for offset in (0, 39, 40, 41, 100, 120)] == [0, 39, 100, 101, 160, 180]
