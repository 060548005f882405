"""The lookups of the runs' statements: read once for all tasks of a connector, looked at again now and then.

A task gets its lookups at the beginning of each epoch. If one has changed, its epoch ends, and the next one begins with the
new one. While a changed one can't be read, tasks go on with the one before. Without any, they wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.app.lookups.loaded_lookup import BadLookupError, LoadedLookup
from mirror_connect.app.supervisor.lookup_reads import Read, client_of, line_of, read_topics, stream
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.lookups import LOOKUP, Lookup
from mirror_connect.connectors.mirror.settings import client_id
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.secrets import redact, secrets_of

log = logging.getLogger(__name__)

# How long a task's request waits for a lookup that is being read. Then it asks again.
HOLD_S: Final = 3.0
# After a failure.
RETRY_S: Final = 5.0


@dataclass(eq=False)
class _Kept:
    """One lookup, as its runs use it. `served`: which version each run has.

    `keys`: by which columns they join it. `bad`: why this version can't be joined by some of them. `found`: when its rows
    were last found to be those of the file or topic, in seconds of the keeper's clock.
    `problem`: why it could not be read the last time, since `problem_since` (seconds since 1970).
    """

    connector: str
    lookup: Lookup
    client: Mapping[str, str] = field(repr=False)
    client_id: str
    interval_s: float
    loaded: LoadedLookup | None = None
    version: int = 0
    keys: set[tuple[str, ...]] = field(default_factory=set)
    bad: dict[tuple[str, ...], str] = field(default_factory=dict)
    served: dict[TaskRun, int] = field(default_factory=dict)
    problem: str | None = None
    problem_since: float = 0.0
    found: float = 0.0
    due: float = 0.0
    looking: asyncio.Task[None] | None = None

    @property
    def stale(self) -> Problem | None:
        """Why its tasks go on with old rows; None if they do not."""
        if self.loaded is None or self.problem is None:
            return None
        name = self.lookup.name
        return Problem(
            name,
            ProblemCode.LOOKUP_STALE,
            f"Lookup {name} ({LOOKUP}{name}={self.lookup.location}) can't be renewed",
            self.problem,
            "its tasks use what was read before",
            since=self.problem_since,
        )


class LookupKeeper:
    """See the module. `clock` gives seconds. `read`: see lookup_reads."""

    def __init__(self, clock: Callable[[], float], read: Read = read_topics) -> None:
        self._clock = clock
        self._read = read
        self._kept: dict[object, _Kept] = {}
        self._threads: ThreadPoolExecutor | None = None

    async def rows(
        self, run: TaskRun, lookup: Lookup, resolved: Mapping[str, str], keys: tuple[str, ...], interval_s: float
    ) -> bytes:
        """What a run's join by these columns needs, as a stream of Arrow's. LookupMissingError: it should ask again."""
        kept = self._of(run.task.connector, lookup, resolved, interval_s)
        kept.served.setdefault(run, 0)
        kept.keys.add(keys)
        if kept.loaded is None:
            self._look(kept)
            if kept.looking is not None:
                await asyncio.wait({kept.looking}, timeout=HOLD_S)
        if kept.loaded is None:
            raise LookupMissingError(line_of(lookup, kept.problem or "it is being read"))
        version, table = kept.version, kept.loaded.table
        if keys not in kept.bad:
            try:
                content: bytes = await self._in_thread(lambda: stream(lookup, table, keys))
            except BadLookupError as error:
                if version == kept.version:
                    kept.bad[keys] = str(error)
            else:
                kept.served[run] = version
                return content
        kept.due = min(kept.due, self._clock() + RETRY_S)
        raise LookupMissingError(line_of(lookup, kept.bad.get(keys, "it is being read")))

    def look(self, runs: Iterable[TaskRun]) -> None:
        """Called again and again: reads what is due, and ends epochs that have an old lookup. `runs`: that are not over."""
        if not self._kept:
            return
        there = set(runs)
        for key, kept in list(self._kept.items()):
            kept.served = {run: version for run, version in kept.served.items() if run in there}
            if not kept.served and kept.looking is None:
                del self._kept[key]
                continue
            if self._clock() >= kept.due:
                self._look(kept)
            for run, version in kept.served.items():
                self._tell(kept, run, version)

    def ages(self, connector: str) -> dict[str, float]:
        """For how many seconds nobody has found the rows of each lookup to be those of its file or topic, by its name.

        Only of those that have rows. While a config changes its tasks may have two of one name: the older one counts.
        """
        found: dict[str, float] = {}
        for kept in self._kept.values():
            if kept.connector == connector and kept.loaded is not None:
                age = max(0.0, self._clock() - kept.found)
                found[kept.lookup.name] = max(age, found.get(kept.lookup.name, 0.0))
        return found

    def close(self) -> None:
        """Reads nothing any more."""
        for kept in self._kept.values():
            if kept.looking is not None:
                kept.looking.cancel()
        self._kept.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    def _tell(self, kept: _Kept, run: TaskRun, version: int) -> None:
        if version and version != kept.version and run.attempt is not None and not run.is_to_end_its_epoch:
            log.info("Task %s gets the new lookup %s", run.task, kept.lookup.name)
            run.leave()
        run.stale[kept.lookup.name] = kept.stale

    def _of(self, connector: str, lookup: Lookup, resolved: Mapping[str, str], interval_s: float) -> _Kept:
        client = client_of(lookup, resolved)
        key = (connector, lookup.name, lookup.location, lookup.schema, frozenset(client.items()))
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(connector, lookup, client, client_id(resolved, "lookup"), interval_s)
        kept.interval_s = interval_s
        return kept

    def _look(self, kept: _Kept) -> None:
        if kept.looking is None and (self._clock() >= kept.due or kept.loaded is None):
            if kept.problem is not None and self._clock() < kept.due:
                return
            kept.looking = asyncio.create_task(self._look_now(kept))

    async def _look_now(self, kept: _Kept) -> None:
        known = None if kept.loaded is None else kept.loaded.stamp
        try:
            found = await self._in_thread(lambda: self._good(kept, known))
        except (BadLookupError, ClusterUnreachable, NotAuthorized, ConfigError) as error:
            self._failed(kept, str(error))
        except Exception as error:  # noqa: BLE001 — a bug must not end the watch
            # Without the error's text, which may show a value of the config or a row.
            stack = "".join(traceback.format_tb(error.__traceback__))
            names = ConnectorName(kept.connector), kept.lookup.name, type(error).__name__
            log.error("Connector %s: lookup %s could not be read: %s\n%s", *names, stack)
            self._failed(kept, f"{type(error).__name__} while it was read; see the log")
        else:
            self._good_again(kept)
            if found is not None:
                changed = kept.loaded is None or not found.table.equals(kept.loaded.table)
                kept.loaded = found
                if changed:
                    kept.version += 1
                    kept.bad.clear()
            kept.found = self._clock()
            kept.due = kept.found + kept.interval_s
        finally:
            kept.looking = None

    def _good(self, kept: _Kept, known: object) -> LoadedLookup | None:
        found = self._read(kept.lookup, kept.client, kept.client_id, known)
        if found is not None and known is not None:
            # Before it takes the place of one that can be joined.
            for keys in kept.keys:
                stream(kept.lookup, found.table, keys)
        return found

    def _failed(self, kept: _Kept, problem: str) -> None:
        if kept.problem != problem:
            line = redact(line_of(kept.lookup, problem), secrets_of(kept.client))
            log.warning("Connector %s: %s", ConnectorName(kept.connector), line)
        if kept.problem is None:
            kept.problem_since = time.time()
        kept.problem = problem
        kept.due = self._clock() + RETRY_S

    def _good_again(self, kept: _Kept) -> None:
        if kept.problem is not None:
            log.info("Connector %s: lookup %s can be read again", ConnectorName(kept.connector), kept.lookup.name)
        kept.problem = None

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._threads is None:
            # Its own, as a cluster may not answer for long.
            self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="lookups")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class LookupMissingError(Exception):
    """A lookup can't be given now; the text says why, in one line."""
