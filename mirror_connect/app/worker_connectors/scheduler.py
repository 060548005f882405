"""The scheduler of a connector's refreshes: it asks clusters again and again until it is stopped, each time in a new thread.

The thread makes the Kafka calls, so an admin call of 60 seconds blocks nobody else. The result goes to the connector on the
event loop. After an error the next refresh comes soon. A problem is logged once, and is in the status until it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Generic, Protocol, TypeVar

from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, in_one_line
from mirror_connect.connectors.errors import AddressUnknown, ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import PROBLEM, ConnectorName
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.kafka_io.admin.admin_errors import AdminError

log = logging.getLogger(__name__)
# Unlike MirrorMaker 2, which waits for the next refresh (10 minutes), a failed refresh is tried again soon.
RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# If its bootstrap servers have no address, a starting connector is tried so often again before it fails.
ADDRESS_TRIES: Final = 2


class Refreshed(Protocol):
    """The result of a refresh."""

    @property
    def problems(self) -> Sequence[Problem]:
        """Its problems; with any the next refresh comes soon."""


Found = TypeVar("Found", bound=Refreshed)


class RefreshScheduler(Generic[Found]):
    """`refresh` is called in the thread and may block and raise; `take` gets its result, on the event loop.

    `starts_connector`: the connector runs when the first refresh is over; one that only adds to it doesn't report that.
    As in MirrorMaker, an interval (`every_s`) of 0 means never again. `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        context: ConnectorContext,
        refresh: Callable[[], Found],
        take: Callable[[Found], None],
        every_s: float,
        *,
        starts_connector: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._context = context
        self._show = context.source_of_problems()
        self._refresh = refresh
        self._take = take
        self._every_s = every_s
        self._going: asyncio.Task[None] | None = None
        self._starts_connector = starts_connector
        self._problems: tuple[Problem, ...] = ()
        self._clock = clock

    def start(self) -> None:
        """Begins, in the background."""
        self._going = asyncio.create_task(self._keep_refreshing())

    async def stop(self) -> None:
        """Ends it. A Kafka call in progress ends by its own time limit; its result is ignored."""
        if self._going is not None:
            self._going.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._going

    def _in_thread(self) -> asyncio.Future[Found]:
        """One refresh, in a thread of its own, which ends with it: hundreds of schedulers wait most of the time."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"connector-{self._context.name}")
        refreshing = asyncio.get_running_loop().run_in_executor(thread, contextvars.copy_context().run, self._refresh)
        thread.shutdown(wait=False)
        return refreshing

    async def _keep_refreshing(self) -> None:
        failures = 0
        running = not self._starts_connector
        while True:
            try:
                found = await self._in_thread()
            except (ClusterUnreachable, AdminError, NotAuthorized) as error:
                if not running and _fails_a_start(error, failures):
                    self._context.raise_error(str(error))
                    return
                if not running and not isinstance(error, AddressUnknown):
                    # As in Connect an unreachable cluster doesn't fail the connector: it runs, without new tasks.
                    self._context.started()
                    running = True
                problem = problem_of(error)
                self._report([replace(problem, advice=self._context.and_its_tasks(problem.advice))])
                # People fix credentials, time does not.
                pause = RETRY_S[-1 if isinstance(error, NotAuthorized) else min(failures, len(RETRY_S) - 1)]
                failures += 1
            except ConfigError as error:
                self._context.raise_error(str(error))
                return
            except Exception as error:  # any error concerns only this connector
                log.exception("Connector %s", ConnectorName(self._context.name))
                self._context.raise_error(f"{type(error).__name__}: {error}")
                return
            else:
                failures = 0
                if not running:
                    self._context.started()
                    running = True
                self._report(found.problems)
                self._take(found)
                if not found.problems and self._every_s <= 0:
                    return
                pause = self._every_s
                if found.problems:
                    # Never later than without them.
                    pause = min(RETRY_S[-1], self._every_s) if self._every_s > 0 else RETRY_S[-1]
            await asyncio.sleep(pause)

    def _report(self, problems: Sequence[Problem]) -> None:
        now = self._clock()
        since = {_thing(each): each.since for each in self._problems}
        found = tuple(
            replace(each, since=since.get(_thing(each)) or now) if _lasts(each) else each for each in problems
        )
        if found == self._problems:
            return
        self._problems = found
        if found:
            about = {PROBLEM: found[0].code.value}
            log.warning("Connector %s: %s", ConnectorName(self._context.name), in_one_line(found), extra=about)
        else:
            log.info("Connector %s: its problems are resolved", ConnectorName(self._context.name))
        self._show(found)


def problem_of(error: Exception, what: str = "") -> Problem:
    """The problem for an error. `what`: what can't be done because of it."""
    before = f"{what}: " if what else ""
    if isinstance(error, ClusterUnreachable):
        text = f"{before}{error.what or error}"
        return Problem(error.what or what, ProblemCode.CLUSTER_UNREACHABLE, text, error.cause, error.advice)
    return Problem(what, ProblemCode.CLUSTER_REFUSES, f"{before}{error}")


def _lasts(problem: Problem) -> bool:
    """Whether to show since when. A problem without a cause, such as a token endpoint's, says everything in its text."""
    return problem.code is ProblemCode.CLUSTER_UNREACHABLE and bool(problem.cause)


def _thing(problem: Problem) -> tuple[str, str, str]:
    return problem.subject, problem.code, problem.text


def _fails_a_start(error: Exception, failures: int) -> bool:
    # As in Connect; but a name without an address does not fail at once, as name servers may fail for a moment.
    return isinstance(error, NotAuthorized) or (isinstance(error, AddressUnknown) and failures >= ADDRESS_TRIES)
