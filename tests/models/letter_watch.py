"""What must hold of dead letters: no position is committed without those below it, and with exactly-once each comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.fakes.encoded_batches import decode
from tests.models.life_clusters import VALUE
from tests.models.watch import BrokenPromiseError, Place, Watch


class LetterWatch:
    """Of all partitions. `found`: how often the letter of a place is on the target. `repeats`: those that came again."""

    def __init__(self, watches: list[Watch]) -> None:
        self._watches = watches
        self._expected: dict[Place, None] = {}
        self.found: Counter[Place] = Counter()
        self.repeats = 0

    def expect(self, places: Iterable[Place]) -> None:
        """The source has records there that nothing can transform."""
        self._expected.update(dict.fromkeys(places))

    def read(self, payload: bytes) -> list[tuple[int, Place]]:
        """The partitions and places of the letters of a batch. They are as the source has them."""
        read = []
        for record in decode(payload):
            incarnation, epoch, offset, partition = VALUE.unpack_from(record.value or b"")
            place = self._watches[partition].place(incarnation, epoch, offset)
            if place is None or place not in self._expected or record.headers[0] != ("bad", b"1"):
                raise BrokenPromiseError(f"offset {offset} of partition {partition} is no dead letter")
            told = dict(record.headers)
            if told.get("__connect.errors.offset") != b"%d" % offset:
                raise BrokenPromiseError(f"the letter of offset {offset} names {told}")
            read.append((partition, place))
        return read

    def written(self, places: Iterable[Place], *, once: bool) -> None:
        """The target has these letters, or readers of committed records see them now."""
        for place in places:
            self.found[place] += 1
            if self.found[place] > 1:
                self.repeats += 1
                if once:
                    raise BrokenPromiseError(f"the letter of {place} comes again")

    def position(self, place: Place | None) -> None:
        """This position is committed."""
        missing = [each for each in place.down() if self._lacks(each)] if place is not None else []
        if missing:
            raise BrokenPromiseError(f"position {place} is committed, and the letter of {missing[-1]} is not there")

    def _lacks(self, place: Place) -> bool:
        return place in self._expected and not self.found[place]

    @property
    def complete(self) -> bool:
        """Whether all of what is at the source now is there."""
        return not any(self._lacks(place) for watch in self._watches for place in watch.log)
