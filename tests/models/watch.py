"""What must hold of a partition while it is copied: looked at in the moment in which something is written or told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


class BrokenPromiseError(AssertionError):
    """What must hold does not."""


@dataclass(eq=False, slots=True)
class Place:
    """An offset in one history of a log: after a truncation the same offset is another place, under a later leader epoch.

    `below`: the place in front of it, which is the same in every history that has this one. `record`: whether the offset
    has one; none have those that compaction has emptied, and those of control batches. `there`: the target has the record;
    `whole`: and all below it. `told`: as lost.
    """

    incarnation: int
    epoch: int
    offset: int
    below: Place | None
    record: bool
    there: bool = False
    whole: bool = False
    told: bool = False

    def __str__(self) -> str:
        return f"offset {self.offset} of topic {self.incarnation} and epoch {self.epoch}"

    def down(self) -> Iterator[Place]:
        """This one and those below, in its own history."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.below

    def preceding(self) -> Place | None:
        """The record in front of it."""
        return next((each for each in self.down() if each.record and each is not self), None)

    def is_behind(self, other: Place) -> bool:
        """Whether the other one is in its history: this one itself, or one below."""
        for each in self.down():
            if each.offset <= other.offset:
                return each is other
        return False


@dataclass
class Watch:
    """Looks at one partition: every record of the source, in order; a position never ahead; repeats only after a fall.

    `log`: what the source has now, by offset. `last`: the newest record on the target. `falls`: how many things have
    happened after which records may repeat. `former`: the producer that has given the partition away. `committed`: the
    newest position of its owner: one that it has read or written. A former owner's may still arrive until the new one
    writes its first: that is true as well.
    """

    log: list[Place] = field(default_factory=list)
    incarnation: int = -1
    last: Place | None = None
    committed: Place | None = None
    falls: int = 0
    repeats: int = 0
    truncations: int = 0
    former: int = -1
    _places: dict[tuple[int, int, int], Place] = field(default_factory=dict)

    # The source.

    def made_again(self) -> None:
        """Another topic has the name."""
        self.incarnation += 1
        self.log = []

    def appended(self, epoch: int, count: int, records: Iterable[int]) -> None:
        """A batch that covers `count` offsets; `records` are those that have one."""
        having = set(records)
        for _ in range(count):
            offset = len(self.log)
            place = Place(self.incarnation, epoch, offset, self.log[-1] if self.log else None, offset in having)
            self.log.append(place)
            self._places[self.incarnation, epoch, offset] = place

    def truncated(self, end: int) -> None:
        """The log ends there now."""
        self.log = self.log[:end]

    def place(self, incarnation: int, epoch: int, offset: int) -> Place | None:
        """None: no log ever had such a one."""
        return self._places.get((incarnation, epoch, offset))

    def is_gone(self, place: Place) -> bool:
        """Whether the source does not have it any more."""
        return place.offset >= len(self.log) or self.log[place.offset] is not place

    # The target.

    def record(self, producer: int, incarnation: int, epoch: int, offset: int) -> None:
        """The target has written it."""
        place, last = self._places[incarnation, epoch, offset], self.last
        if producer == self.former:
            raise BrokenPromiseError(f"{place} came from a task that had given the partition away")
        if self.committed is not None and _is_past(place, self.committed):
            raise BrokenPromiseError(f"{place} is there again, although {self.committed} was committed")
        if last is not None and _is_past(place, last):
            self.repeats += 1
            self._fall(f"{place} came behind {last}")
        elif last is None or place.incarnation > last.incarnation:
            if place.preceding() is not None:
                raise BrokenPromiseError(f"{place} came first")
        elif place.preceding() is not last:
            self._goes_back(last, place)
        place.there = True
        self.last = place

    def _goes_back(self, last: Place, place: Place) -> None:
        """To where the log was truncated, or something is skipped."""
        before = place.preceding()
        if place.epoch <= last.epoch or (before is not None and not last.is_behind(before)):
            raise BrokenPromiseError(f"{place} came behind {last}: what is between them is skipped")
        self.truncations += 1
        lost = [each for each in last.down() if each.record and (before is None or each.offset > before.offset)]
        if not all(each.told for each in lost):
            # Who has read it may be gone without a trace of that: neither a position nor a line.
            self._fall(f"{place} came behind {last}, and what was truncated is not told")

    def _fall(self, what: str) -> None:
        if not self.falls:
            raise BrokenPromiseError(f"{what}, and nothing had happened")
        self.falls -= 1

    def position(self, producer: int, place: Place | None, *, owner: bool) -> None:
        """The target has written this position. `owner`: nobody has taken the producer's place meanwhile."""
        if place is None:
            raise BrokenPromiseError("a position is committed that no log ever had with this epoch")
        if producer == self.former:
            raise BrokenPromiseError(f"position {place} came from a task that had given the partition away")
        if not _is_whole(place):
            missing = [each.offset for each in place.down() if each.record and not each.there]
            raise BrokenPromiseError(f"position {place} is committed, and {missing[-5:]} are not on the target")
        if owner:
            self.committed = place

    def lost(self, first: int, last: int, read: Sequence[Place]) -> None:
        """A task says that these offsets are gone; `read`: up to where it may have read by each of its fetches.

        Of what it has given back since it says nothing; that all is told which was copied is looked at in `record`.
        """
        for behind in reversed(read):
            each = next((place for place in behind.down() if place.offset == last), None)
            if each is not None and each.incarnation == self.incarnation and self.is_gone(each):
                gone = [place for place in each.down() if self.is_gone(place)]
                if gone[-1].offset == first:
                    for place in gone:
                        place.told = True
                    return
        raise BrokenPromiseError(
            f"offsets {first} to {last} are told as lost, and that is not what was read and is gone"
        )

    @property
    def complete(self) -> bool:
        """Whether all of the topic that is there now is on the target."""
        return not self.log or _is_whole(self.log[-1])


def _is_past(place: Place, of: Place) -> bool:
    return place.incarnation < of.incarnation or of.is_behind(place)


def _is_whole(place: Place) -> bool:
    """Whether the target has every record at or below it."""
    looked_at = []
    for each in place.down():
        if each.whole:
            break
        if each.record and not each.there:
            return False
        looked_at.append(each)
    for each in looked_at:
        each.whole = True
    return True
