"""Replaces the session key that signs requests between workers, when it is too old. The leader does it, as in Connect."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mirror_connect.app.errors import ConnectError
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.storage.configs import ConfigStore

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
_AFTER_FAILURE_S: Final = 5.0


class SessionKeyRotation:
    """See the module. A new leader writes a key when it takes over (leadership.py); this follows its age."""

    def __init__(self, configs: ConfigStore, leadership: Leadership) -> None:
        self._configs = configs
        self._leadership = leadership
        self._rotating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        self._rotating = asyncio.create_task(self._rotate(), name="session-key-rotation")

    def stop(self) -> None:
        """Ends it."""
        if self._rotating is not None:
            self._rotating.cancel()

    async def _rotate(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._leadership.term is None or not self._configs.lacks_session_key:
                continue
            try:
                async with self._leadership.writing():
                    await self._configs.put_session_key()
            except ConnectError as error:
                # The old key signs until the next one is there: nothing fails meanwhile.
                log.debug("The session key could not be replaced: %s", error)
                await asyncio.sleep(_AFTER_FAILURE_S)
            except Exception:
                log.exception("A bug while the session key was replaced; trying again")
                await asyncio.sleep(_AFTER_FAILURE_S)
