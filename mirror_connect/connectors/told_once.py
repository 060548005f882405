"""Lines about troubles that come again and again: each once until it is over, and not thousands of the same kind.

A broker that starts, or one that has just been given thousands of partitions, refuses all of them for some seconds; a
topic that is deleted and made again, or is not to be read, is so in all of its partitions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

# Of one kind of trouble at a time.
MOST_TOLD: Final = 20
# What happens to many for one reason is noticed within moments.
MOMENT_S: Final = 2.0


class ToldOnce:
    """Who is in which kind of trouble (an error code, as a rule). `notice` gets the lines."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._troubles: dict[str, set[int]] = {}
        self._many: Counter[int] = Counter()

    def tell(self, who: str, kind: int, line: str) -> None:
        """Says it, unless that was said of this one already or there are many like it."""
        kinds = self._troubles.setdefault(who, set())
        if kind in kinds:
            return
        kinds.add(kind)
        self._many[kind] += 1
        if self._many[kind] <= MOST_TOLD:
            self._notice(line)
        elif self._many[kind] == MOST_TOLD + 1:
            self._notice(f"{line}. There are more of these: no further line before some of them are over")

    def over(self, who: str, kind: int | None = None) -> None:
        """It is well again, in this respect or (None) in all."""
        kinds = self._troubles.get(who, set())
        for each in [kind] if kind in kinds else [] if kind is not None else list(kinds):
            kinds.discard(each)
            self._many[each] -= 1
        if not kinds:
            self._troubles.pop(who, None)


class ToldTogether:
    """What happens to many at a time: some of them are told one by one, then in one line how many more. On an event loop."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._many: Counter[str] = Counter()
        self._offsets: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[Hashable, str], Hashable] = {}

    def tell(self, line: str, kind: str, offsets: int = 0, fate: str = "skipped") -> None:
        """Says it, unless there were many like it in this moment; `kind` goes on behind `37 more `.

        `offsets`: so many it tells of as lost, and `fate` is what has become of them. Those of lines that aren't said are
        summed up.
        """
        if kind not in self._many:
            asyncio.get_running_loop().call_later(MOMENT_S, self._count, kind, fate)
        self._many[kind] += 1
        if self._many[kind] <= MOST_TOLD:
            self._notice(line)
        else:
            self._offsets[kind, fate] += offsets

    def is_news(self, whom: Hashable, kind: str, what: Hashable) -> bool:
        """False if this is what was heard last of `whom` in this kind: it is found again, and didn't happen again."""
        before = self._last.get((whom, kind))
        self._last[whom, kind] = what
        return before != what

    def _count(self, kind: str, fate: str) -> None:
        more, offsets = self._many.pop(kind) - MOST_TOLD, self._offsets.pop((kind, fate), 0)
        if more > 0:
            self._notice(f"{more} more {kind}" + (f": {offsets} offsets of them {fate}" if offsets else ""))
