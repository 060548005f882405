"""The rounds of a connector part: it looks at clusters again and again, in a thread of its own, until it is stopped.

One thread for each connector does the Kafka calls, so that a 60-second admin call blocks nobody else. What it found goes
to the herder on the event loop. A cluster that is silent, or refuses, is looked at again soon; what is wrong is told once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, Protocol, TypeVar

from mirror_connect.app.worker_connectors.host import PartHost
from mirror_connect.connectors.errors import AddressUnknown, ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.utc_time import utc
from mirror_connect.kafka_io.admin.admin import AdminError

log = logging.getLogger(__name__)
# Unlike MirrorMaker 2, which waits for the next refresh (10 minutes), a failed round is tried again soon.
RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# A connector whose bootstrap servers have no address at its start fails when it was tried so often again.
ADDRESS_TRIES: Final = 2
TROUBLES_SHOWN: Final = 3
# Of each trouble in a line: which cluster is away (kafka_io/admin/admin.py), with what can't be done for that.
_AWAY: Final = re.compile(r"(?:^|(?<=; ))[^;]*?(?:can't be reached|does not answer)")


class Looked(Protocol):
    """What a round found."""

    @property
    def troubles(self) -> Sequence[str]:
        """A line for each thing that is in trouble: then the next round comes soon."""


Found = TypeVar("Found", bound=Looked)


class Rounds(Generic[Found]):
    """`look` is called in the thread and may block and raise; `take` gets what it found, on the event loop.

    An interval (`every_s`, seconds) of nothing means never again, as in MirrorMaker. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        host: PartHost,
        look: Callable[[], Found],
        take: Callable[[Found], None],
        every_s: float,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._host = host
        self._look = look
        self._take = take
        self._every_s = every_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"connector-{name}")
        self._going: asyncio.Task[None] | None = None
        self._trouble: str | None = None
        self._clock = clock
        # Since when what is away has been so, by the words that say which.
        self._away: dict[str, float] = {}

    def start(self) -> None:
        """Begins to look, in the background."""
        self._going = asyncio.create_task(self._keep_looking())

    async def stop(self) -> None:
        """Ends it. A Kafka call under way is left to its own time limit; its result goes nowhere."""
        if self._going is not None:
            self._going.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._going
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        running = False
        while True:
            try:
                found = await loop.run_in_executor(self._thread, self._look)
            except (ClusterUnreachable, AdminError, NotAuthorized) as error:
                if not running and _fails_a_start(error, failures):
                    self._host.failed(self._name, str(error))
                    return
                if not running and not isinstance(error, AddressUnknown):
                    # As in Connect an unreachable cluster doesn't fail the connector: it runs, without new tasks.
                    self._host.started(self._name)
                    running = True
                self._say_trouble(str(error))
                # Credentials are looked at again by people, not by time.
                pause = RETRY_S[-1 if isinstance(error, NotAuthorized) else min(failures, len(RETRY_S) - 1)]
                failures += 1
            except ConfigError as error:
                self._host.failed(self._name, str(error))
                return
            except Exception as error:  # whatever it is, it is this connector's alone
                log.exception("Connector %s", self._name)
                self._host.failed(self._name, f"{type(error).__name__}: {error}")
                return
            else:
                failures = 0
                if not running:
                    self._host.started(self._name)
                    running = True
                self._say_trouble(_in_one_line(found.troubles))
                self._take(found)
                if not found.troubles and self._every_s <= 0:
                    return
                pause = self._every_s
                if found.troubles:
                    # Never later than without them.
                    pause = min(RETRY_S[-1], self._every_s) if self._every_s > 0 else RETRY_S[-1]
            await asyncio.sleep(pause)

    def _say_trouble(self, line: str | None) -> None:
        line = self._with_times(line)
        if line == self._trouble:
            return
        self._trouble = line
        if line is not None:
            log.warning("Connector %s: %s", self._name, line)
        else:
            log.info("Connector %s: the trouble is over", self._name)
        self._host.troubled(self._name, line)

    def _with_times(self, line: str | None) -> str | None:
        """Says of each cluster that is away since when; as a task's line does (kafka_io/client/outage.py)."""
        now = self._clock()
        before, self._away = self._away, {}

        def since(away: re.Match[str]) -> str:
            begun = self._away[away[0]] = before.get(away[0], now)
            return f"{away[0]} since {utc(begun)}"

        return None if line is None else _AWAY.sub(since, line)


def _fails_a_start(error: Exception, failures: int) -> bool:
    # As in Connect, but for a name without an address not at once: name servers have bad moments, too.
    return isinstance(error, NotAuthorized) or (isinstance(error, AddressUnknown) and failures >= ADDRESS_TRIES)


def _in_one_line(troubles: Sequence[str]) -> str | None:
    if len(troubles) > TROUBLES_SHOWN:
        troubles = [*troubles[:TROUBLES_SHOWN], f"and {len(troubles) - TROUBLES_SHOWN} more"]
    return "; ".join(troubles) or None
