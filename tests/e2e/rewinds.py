"""Whether a copy is its source and nothing else, but for jumps back: what at-least-once may do after a crash.

A copy may go back to an earlier place of its source and repeat from there. It may never skip, and hold nothing foreign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from typing import Final, NamedTuple

_SHOWN: Final = 200


class Rewind(NamedTuple):
    """At index `at` of the copy, index `expected` of its source was next, and index `to` came."""

    at: int
    expected: int
    to: int

    @property
    def repeated(self) -> int:
        """How many records came again."""
        return self.expected - self.to


def rewinds(
    source: Sequence[Hashable], copy: Sequence[Hashable], starts: Collection[int] | None = None
) -> list[Rewind]:
    """The fewest jumps back that lead through all of `source` and give `copy`; AssertionError if there are none.

    `starts`: the indices of `copy` at which it may go back (a batch is written whole); anywhere unless given.
    """
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(source):
        places[item].append(place)
    # The index of the source that comes next → the jumps so far. Equal records leave more than one possible.
    paths: dict[int, tuple[Rewind, ...]] = {0: ()}
    for at, item in enumerate(copy):
        following = {place + 1: path for place, path in paths.items() if place < len(source) and source[place] == item}
        if starts is None or at in starts:
            for place, path in sorted(paths.items(), key=lambda each: len(each[1])):
                for to in places[item]:
                    if to >= place:
                        break
                    known = following.get(to + 1)
                    if known is None or len(known) > len(path) + 1:
                        following[to + 1] = (*path, Rewind(at, place, to))
        assert following, (
            f"record {at} of the copy, {_shown(item)}, is neither next nor a jump back: {_wanted(source, paths)}"
        )
        paths = following
    assert len(source) in paths, (
        f"the copy ends after {len(copy)} records before its source does: {_wanted(source, paths)}"
    )
    return list(paths[len(source)])


def _wanted(source: Sequence[Hashable], paths: Collection[int]) -> str:
    place = max(paths)
    return f"{_shown(source[place])} was next" if place < len(source) else "nothing was next"


def _shown(item: Hashable) -> str:
    return repr(item)[:_SHOWN]
