"""Room for the bodies of requests: what all of them together may take of the worker's memory, and how long one may come.

A worker that is sent hundreds of large bodies at once, byte by byte, neither grows with them nor loses its lease: who comes
when the room is taken is told to come again. Small bodies always have room; how many connections there are is bounded
elsewhere (app/rest/http_servers.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror_connect.app.errors import BodyTooSlow, TooManyBodies

# Of all requests that have not been answered yet: two of the largest there may be.
BUDGET: Final = 32 << 20
# So much of a body is not counted. A connector's config is smaller as a rule.
SMALL: Final = 64 << 10
# From the first byte of a body to its last.
WHOLE_BODY_S: Final = 60.0


class BodyBudget:
    """Counts what requests hold; for one event loop. All applications of a worker share one."""

    def __init__(self, total: int = BUDGET, whole_body_s: float = WHOLE_BODY_S) -> None:
        self.total = total
        self.whole_body_s = whole_body_s
        self.taken = 0

    def guard(self, application: ASGIApp) -> ASGIApp:
        """The application with bodies counted while it reads and answers them."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await application(scope, receive, send)
                return
            share = _Share(self, receive)
            try:
                await application(scope, share.receive, send)
            finally:
                share.give_back()

        return guarded


class _Share:
    """What one request holds."""

    def __init__(self, budget: BodyBudget, receive: Receive) -> None:
        self._budget = budget
        self._receive = receive
        self._read = 0
        self._counted = 0
        self._until: float | None = None
        self._whole = False

    async def receive(self) -> Message:
        """The next message. TooManyBodies, BodyTooSlow."""
        if self._whole:
            return await self._receive()
        if self._until is None:
            self._until = asyncio.get_running_loop().time() + self._budget.whole_body_s
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow(self._budget.whole_body_s) from None
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            self._count(len(message.get("body", b"")))
        return message

    def _count(self, size: int) -> None:
        self._read += size
        more = max(0, self._read - SMALL) - self._counted
        if self._budget.taken + more > self._budget.total:
            raise TooManyBodies
        self._counted += more
        self._budget.taken += more

    def give_back(self) -> None:
        self._budget.taken -= self._counted
        self._counted = 0
