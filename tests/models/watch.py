"""What must hold of a partition while it is copied: looked at in the moment in which something is written."""

from __future__ import annotations

from dataclasses import dataclass, field


class BrokenPromiseError(AssertionError):
    """What must hold does not."""


@dataclass
class Watch:
    """Looks at one partition: every record of the source, in order; a position never ahead; repeats only after a fall.

    Records are named by (incarnation of the topic, offset). `falls`: how many things have happened after which records
    may repeat. `former`: the producer that has given the partition away. `committed`: the newest position of its owner: one
    that it has read or written. A former owner's may still arrive until the new one writes its first: that is true as well.
    """

    source: dict[int, list[int]] = field(default_factory=dict)
    written: list[tuple[int, int]] = field(default_factory=list)
    there: set[tuple[int, int]] = field(default_factory=set)
    committed: tuple[int, int] = (-1, -1)
    falls: int = 0
    repeats: int = 0
    former: int = -1

    def record(self, producer: int, incarnation: int, offset: int) -> None:
        """The target has written it."""
        name = (incarnation, offset)
        if producer == self.former:
            raise BrokenPromiseError(f"{name} came from a task that had given the partition away")
        if name <= self.committed:
            raise BrokenPromiseError(f"{name} is there again, although {self.committed} was committed")
        if self.written:
            last = self.written[-1]
            if name <= last:
                self.repeats += 1
                if not self.falls:
                    raise BrokenPromiseError(f"{name} came behind {last}, and nothing had happened")
                self.falls -= 1
            elif name != self._following(last) and (name[0] == last[0] or name != self._first(name[0])):
                raise BrokenPromiseError(f"{name} came behind {last}: {self._following(last)} is skipped")
        elif name != self._first(incarnation):
            raise BrokenPromiseError(f"{name} came first")
        self.written.append(name)
        self.there.add(name)

    def position(self, producer: int, incarnation: int, offset: int, *, owner: bool) -> None:
        """The target has written this position. `owner`: nobody has taken the producer's place meanwhile."""
        if producer == self.former:
            raise BrokenPromiseError(f"position {offset} came from a task that had given the partition away")
        missing = [
            each for each in self.source[incarnation] if each <= offset and (incarnation, each) not in self.there
        ]
        if missing:
            raise BrokenPromiseError(f"position {offset} is committed, and {missing[:5]} are not on the target")
        if owner:
            self.committed = (incarnation, offset)

    def complete(self, incarnation: int) -> bool:
        """Whether all of the topic that is there now is on the target."""
        wanted = self.source[incarnation]
        return all((incarnation, each) in self.there for each in reversed(wanted))

    def _first(self, incarnation: int) -> tuple[int, int] | None:
        wanted = self.source[incarnation]
        return (incarnation, wanted[0]) if wanted else None

    def _following(self, name: tuple[int, int]) -> tuple[int, int] | None:
        later = [each for each in self.source[name[0]] if each > name[1]]
        return (name[0], later[0]) if later else None
