"""The most memory that the processes of a side had while something was measured."""

from __future__ import annotations

import threading
from collections import defaultdict

from benchmarks.sides import Side


class MemoryPeaks:
    """The most memory that each kind of process had, in MB of PSS, read each second from `with` to its end."""

    def __init__(self, side: Side) -> None:
        self.megabytes: dict[str, float] = {}
        self._side = side
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryPeaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        tree = self._side.tree()
        while not self._over.wait(1.0):
            now: dict[str, float] = defaultdict(float)
            for kind, _, megabytes in tree.pss():
                now[kind] = max(now[kind], megabytes)
            for kind, megabytes in now.items():
                self.megabytes[kind] = max(self.megabytes.get(kind, 0.0), megabytes)
