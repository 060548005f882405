"""The Spark application for statements: started when there is a task or a question for it, ended after a while without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.app.supervisor.hosted_spark import HostedSpark

# For so long it stays without a task and a question: a connector that is changed or restarted finds it.
IDLE_S: Final = 600.0
# How often it is looked whether that time is over.
LOOK_S: Final = 5.0


class SparkOnDemand:
    """See the module. `needed`: whether there is a task or a question for it now; `clock` gives seconds."""

    def __init__(self, spark: HostedSpark, needed: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._spark = spark
        self._needed = needed
        self._clock = clock
        self._url = ""
        self._used_at = 0.0
        self._idling: asyncio.Task[None] | None = None

    def open(self, url: str) -> None:
        """From now on it starts when it is needed; `url` is where its processes reach the internal HTTP."""
        self._url = url
        self.look()

    async def close(self) -> None:
        """From now on it does not start. If it runs, it still has to be ended."""
        self._url = ""
        if self._idling is not None:
            self._idling.cancel()
            await asyncio.gather(self._idling, return_exceptions=True)

    def look(self) -> None:
        """Starts it if it is needed."""
        if self._needed():
            self.expect()

    def expect(self) -> None:
        """Starts it, as it is about to be needed. If it is not, it ends after IDLE_S."""
        if not self._url:
            return
        self._used_at = self._clock()
        if self._idling is None or self._idling.done():
            self._spark.start(self._url)
            self._idling = asyncio.create_task(self._end_when_idle())

    async def _end_when_idle(self) -> None:
        while self._clock() - self._used_at < IDLE_S:
            await asyncio.sleep(LOOK_S)
            if self._needed():
                self._used_at = self._clock()
        await self._spark.end(patience_s=1.0)
        # A task or a question may have come while it ended.
        asyncio.get_running_loop().call_soon(self.look)
