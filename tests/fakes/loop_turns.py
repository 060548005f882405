"""Counts what is done in each turn of the event loop: the most of one turn, and all together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


class LoopTurns:
    """`most`: of each kind of work, the most in one turn. `whole`: all of it. `start` it in the loop."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self.whole: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    def start(self) -> None:
        """From now on turns are told apart. It keeps the loop busy."""
        for kind, times in self._now.items():
            self.most[kind] = max(self.most[kind], times)
        self._now.clear()
        asyncio.get_running_loop().call_soon(self.start)

    def forget_this_turn(self) -> None:
        """What was done so far in this turn is the test's own work."""
        self.whole -= self._now
        self._now.clear()

    def count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        """Counts the calls of this function, as its name."""
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._now[name] += 1
            self.whole[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)
