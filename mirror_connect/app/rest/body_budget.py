"""Limits for the bodies of requests: the memory of all together, and the time of each.

Hundreds of clients that send large bodies byte by byte neither fill the worker's memory nor cost it its lease: when the
budget is used up, new requests get 503. Small bodies are not counted; http_servers.py limits the number of connections.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror_connect.app.errors import BodyTooSlow, TooManyBodies

# Of all requests that are not answered yet: two of the largest bodies.
BUDGET: Final = 32 << 20
# This much of each body is not counted. A connector's config is usually smaller.
SMALL: Final = 64 << 10
# From the first byte of a body to its last.
WHOLE_BODY_S: Final = 60.0


class BodyBudget:
    """Counts the bytes that requests hold; for one event loop. All applications of a worker share one."""

    def __init__(self, total: int = BUDGET, whole_body_s: float = WHOLE_BODY_S) -> None:
        self.total = total
        self.whole_body_s = whole_body_s
        self.taken = 0

    def guard(self, application: ASGIApp) -> ASGIApp:
        """The application, with the bodies of its requests counted until they are answered."""

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
    """The part of the budget that one request holds."""

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
