"""What one broker is to be asked for, kept from fetch to fetch: only what has stirred since is looked at again.

With thousands of partitions, nearly all of them quiet, a look at each before every fetch would cost more than the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mirror_connect.kafka_io.protocol.wire import FetchPartition

Key = tuple[str, int]


class Judged(NamedTuple):
    """One partition: what is wanted of it (None: nothing now), and whether that may change without a `stir`.

    `full`: it is left out because it holds too much.
    """

    wanted: FetchPartition | None
    restless: bool
    full: bool = False


NOTHING: Final = Judged(None, restless=False)


class FetchPlan:
    """`wanted` is what is asked for; `news` are the keys in which it may differ from what was last asked for."""

    def __init__(self) -> None:
        self.wanted: dict[Key, FetchPartition] = {}
        # In the order in which things happened, so that a request is no matter of chance.
        self.news: dict[Key, None] = {}
        self._stirred: dict[Key, None] = {}

    def stir(self, key: Key) -> None:
        """Something about this partition is another than it was, or it came or went."""
        self._stirred[key] = None

    def look(self, judge: Callable[[Key], Judged]) -> bool:
        """Looks at what has stirred, and at the restless; whether some were left out because they hold too much."""
        stirred, self._stirred = self._stirred, {}
        some_full = False
        for key in stirred:
            found = judge(key)
            if found.wanted is None:
                self.wanted.pop(key, None)
            else:
                self.wanted[key] = found.wanted
            if found.restless:
                self._stirred[key] = None
            some_full = some_full or found.full
        self.news |= stirred
        return some_full

    def asked(self) -> None:
        """The broker is being asked for all of `wanted`."""
        self.news.clear()
