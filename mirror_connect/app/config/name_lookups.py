"""A loop in which a name server that never answers holds up nothing: no timeout, no end of the loop or of the process.

asyncio looks names up in threads of its executor. `asyncio.run` waits minutes for those at its end, whatever has timed out,
and a process ends only when they have. No limit can be set for the system's own look-up.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any


class LookupLoop(asyncio.SelectorEventLoop):
    """See the module. For `asyncio.Runner(loop_factory=LookupLoop)`."""

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> list[Any]:
        """As that of asyncio, in a thread that nobody waits for once the caller has given up."""
        found: asyncio.Future[list[Any]] = self.create_future()

        def give(result: list[Any] | Exception) -> None:
            if found.done():
                return
            if isinstance(result, Exception):
                found.set_exception(result)
            else:
                found.set_result(result)

        def look_up() -> None:
            result: list[Any] | Exception
            try:
                result = socket.getaddrinfo(host, port, **hints)
            except Exception as error:  # noqa: BLE001 — the caller gets it
                result = error
            # The loop may be closed by now.
            with suppress(RuntimeError):
                self.call_soon_threadsafe(give, result)

        threading.Thread(target=look_up, name=f"name-of-{host}", daemon=True).start()
        return await found
