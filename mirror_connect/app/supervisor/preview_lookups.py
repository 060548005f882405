"""The lookups of previews. Spark's processes ask for the rows as for those of a task, with a token for this one preview.

Each preview reads its lookups anew, and what it has read ends with it. Nothing of their rows is logged.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import traceback
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.app.supervisor.lookup_reads import Read, client_of, line_of, read_topics, stream
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.settings import client_id
from mirror_connect.connectors.mirror.transform_sql import SQL

log = logging.getLogger(__name__)


class LookupRefused(Exception):
    """A lookup can't be joined as it is; the text is one line for the user."""


@dataclass(eq=False)
class PreviewRun:
    """One preview. `failed`: why a lookup could not be read. `reading`: those that are being read."""

    lookups: Mapping[str, Lookup]
    resolved: Mapping[str, str] = field(repr=False)
    failed: asyncio.Future[None]
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    reading: list[Lookup] = field(default_factory=list)


class PreviewLookups:
    """See the module. `read`: see lookup_reads."""

    def __init__(self, read: Read = read_topics) -> None:
        self._read = read
        self._runs: dict[str, PreviewRun] = {}
        # Not those of tasks, which must not wait for previews. Few, as each may have 32 MiB.
        self._threads: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="preview-lookups")

    @contextmanager
    def opened(self, lookups: Collection[Lookup], resolved: Mapping[str, str]) -> Iterator[PreviewRun]:
        """A preview whose statement may join these lookups. Afterwards Spark's processes hear that it is over."""
        failed = asyncio.get_running_loop().create_future()
        run = PreviewRun({each.name: each for each in lookups}, resolved, failed)
        self._runs[run.run_id] = run
        try:
            yield run
        finally:
            del self._runs[run.run_id]
            if not failed.cancel() and not failed.cancelled():
                failed.exception()

    def find(self, run_id: str) -> PreviewRun | None:
        """A preview that is not over."""
        return self._runs.get(run_id)

    async def rows(self, run: PreviewRun, name: str, keys: Sequence[str]) -> bytes | None:
        """What the statement's join by these columns needs, as a stream of Arrow's; None if that will never come."""
        lookup = run.lookups.get(name)
        if lookup is None or not set(keys) <= {each.name for each in lookup.columns}:
            self._fail(run, ConfigError(SQL, None, f"Spark asks for another lookup than it has: {name}"))
            return None
        run.reading.append(lookup)
        try:
            client, identity = client_of(lookup, run.resolved), client_id(run.resolved, "preview-lookup")
            work = self._threads.submit(self._joinable, lookup, client, identity, tuple(keys))
            return await asyncio.wrap_future(work)
        except BadLookupError as error:
            self._fail(run, LookupRefused(line_of(lookup, str(error))))
        except (ClusterUnreachable, NotAuthorized) as error:
            self._fail(run, type(error)(line_of(lookup, str(error))))
        except ConfigError as error:
            self._fail(run, error)
        except Exception as error:  # noqa: BLE001 — whoever asked must not wait for nothing
            # Without the error's text, which may show a value of the config or a row.
            stack = "".join(traceback.format_tb(error.__traceback__))
            log.error("Lookup %s could not be read for a preview: %s\n%s", name, type(error).__name__, stack)
            self._fail(run, LookupRefused(line_of(lookup, f"{type(error).__name__} while it was read; see the log")))
        finally:
            run.reading.remove(lookup)
        return None

    def _joinable(self, lookup: Lookup, client: Mapping[str, str], identity: str, keys: tuple[str, ...]) -> bytes:
        found = self._read(lookup, client, identity, None)
        assert found is not None
        return stream(lookup, found.table, keys)

    def _fail(self, run: PreviewRun, error: Exception) -> None:
        if not run.failed.done():
            run.failed.set_exception(error)
