"""Closes admin clients that nobody has used for a while: librdkafka keeps some three threads and a connection for each.

A connector asks its clusters every ten minutes by default. The next call makes another client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakSet

IDLE_S: Final = 30.0
LOOK_S: Final = 5.0


class MayBeIdle(Protocol):
    """What may have a client."""

    def let_go_if_idle(self, seconds: float) -> tuple[bool, object]:
        """Whether it has no client now, and the client that it gave up just now: nobody has used it for so long.

        It never waits for a call.
        """


class IdleClients:
    """Looks at the clients in one thread for all of them. It ends when there is no client any more."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: WeakSet[MayBeIdle] = WeakSet()
        self._thread: threading.Thread | None = None

    def opened(self, owner: MayBeIdle) -> None:
        """It has a client from now on."""
        with self._lock:
            self._open.add(owner)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idle-clients", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._sleep(LOOK_S)
            given_up = self._look()
            if given_up is None:
                return
            # Their end waits for their threads, and may take long.
            given_up.clear()

    def _look(self) -> list[object] | None:
        """The clients that were given up; None if there was none to look at, which ends the thread."""
        with self._lock:
            given_up: list[object] = []
            if not self._open:
                self._thread = None
                return None
            for owner in list(self._open):
                has_none, client = owner.let_go_if_idle(IDLE_S)
                if has_none:
                    self._open.discard(owner)
                    given_up.append(client)
            return given_up
