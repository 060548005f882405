"""Source offsets in memory, and in the offset file of Connect's standalone mode.

Tasks report what the target has acknowledged, so no offset in the file is ahead of the target's records. Kafka's worker
writes the file every `offset.flush.interval.ms`. This one writes it soon after a change, so that a kill repeats little. A
file that takes long to write is written more rarely.

The topic's id and the leader epoch of each source offset are headers in connect-offsets. The file has no headers. So they
are one more entry of it, under a key that Kafka's worker takes for nobody's and keeps. The entry names the value that each
belongs to: if a Kafka worker has written a newer offset, they no longer count.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mirror_connect.app.errors import StartupError
from mirror_connect.app.standalone.memory_log import MemoryLog
from mirror_connect.app.standalone.offset_file import (
    OffsetFileError,
    read_offset_file,
    remove_leftovers,
    write_offset_file,
)
from mirror_connect.app.storage import json_text
from mirror_connect.app.storage.topic_log import Entry, OnRecord
from mirror_connect.app.worker_connectors.offset_stores import Reported
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.records.internal_json import is_integer
from mirror_connect.connectors.records.source_offsets import (
    OffsetOrigin,
    parse_source_offset_headers,
    source_offset_headers,
)
from mirror_connect.connectors.records.topic_ids import parse_topic_id, topic_id_text

log = logging.getLogger(__name__)

# Kafka's worker finds no connector by a key without a partition, and says nothing of it.
ORIGINS_KEY: Final = json_text.encode(["mirror-connect.origins", None])
# Reports of several tasks come together, every half second.
SOON_S: Final = 0.3
RETRY_S: Final = 5.0
# Of all time at most a tenth is for writing the file.
PAUSES: Final = 9.0


class OffsetFileLog(MemoryLog):
    """A TopicLog on the file. `interval_ms`: the longest time from a report to the file, unless writing it takes long."""

    def __init__(self, path: str, interval_ms: int) -> None:
        super().__init__(path)
        self._path = path
        self._soon_s = min(SOON_S, interval_ms / 1000)
        self._offsets: dict[bytes, bytes | None] = {}
        self._origins: dict[bytes, OffsetOrigin] = {}
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()
        # One thread: an older state must never replace a newer one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offset-file")
        self._writer: asyncio.Task[None] | None = None
        self._problem: str | None = None

    async def start(self, on_record: OnRecord) -> None:
        """See TopicLog. StartupError for a file that can't be read, or is none."""
        await super().start(on_record)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, remove_leftovers, self._path)
            offsets = await loop.run_in_executor(self._thread, read_offset_file, self._path)
        except OffsetFileError as error:
            raise StartupError(str(error)) from None
        self._origins = _origins(offsets.pop(ORIGINS_KEY, None), offsets)
        self._offsets = offsets
        for key, value in offsets.items():
            self.deliver(key, value, _headers(self._origins.get(key)))
        self._writer = asyncio.create_task(self._keep_writing(), name="offset file")

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """See TopicLog. In the file when it returns; ClusterUnreachable, and nothing has changed, if it can't be written."""
        async with self._turn:
            changed = dict(entries)
            try:
                await self._write({**self._offsets, **changed}, _without(self._origins, changed))
            except asyncio.CancelledError:
                # The thread may write it all the same: what counts is written after it.
                self._changed.set()
                raise
            # What was reported meanwhile stays.
            self._offsets.update(changed)
            for key, value in entries:
                self._origins.pop(key, None)
                self.deliver(key, value)

    def note(self, entries: Sequence[Reported]) -> None:
        """Takes what tasks have reported. It counts at once, and is soon in the file."""
        for key, value, headers in entries:
            self._offsets[key] = value
            self._origins[key] = parse_source_offset_headers(headers)
            self.deliver(key, value, headers)
        if entries:
            self._changed.set()

    async def flush(self) -> None:
        """Writes what is not in the file yet. A failure is logged."""
        async with self._turn:
            if self._changed.is_set():
                await self._write_noted()

    async def stop(self) -> None:
        """See TopicLog. Writes what is not in the file yet."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
            self._writer = None
            await self.flush()
        await super().stop()

    async def _keep_writing(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._soon_s)
            began = time.monotonic()
            try:
                await self.flush()
            except Exception:
                # Without the writer no offset would be kept any more.
                log.exception("A bug: %s was not written; trying again", self._path)
                self._changed.set()
                await asyncio.sleep(RETRY_S)
            took = time.monotonic() - began
            await asyncio.sleep(PAUSES * took if self._problem is None else max(RETRY_S, PAUSES * took))

    async def _write_noted(self) -> None:
        self._changed.clear()
        try:
            await self._write(self._offsets, self._origins)
        except ClusterUnreachable as problem:
            self._changed.set()
            if str(problem) != self._problem:
                log.error("%s. What is copied meanwhile is copied again if the worker ends", problem)
            self._problem = str(problem)
        except asyncio.CancelledError:
            self._changed.set()
            raise
        else:
            if self._problem is not None:
                log.info("%s is written again", self._path)
            self._problem = None

    async def _write(self, offsets: Mapping[bytes, bytes | None], origins: Mapping[bytes, OffsetOrigin]) -> None:
        offsets, origins = dict(offsets), dict(origins)

        def write() -> None:
            known = _origins_value(origins, offsets)
            write_offset_file(self._path, {**offsets, ORIGINS_KEY: known} if known is not None else offsets)

        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, write)
        except OffsetFileError as error:
            raise ClusterUnreachable(str(error)) from None


def _without(
    origins: Mapping[bytes, OffsetOrigin], changed: Mapping[bytes, bytes | None]
) -> Mapping[bytes, OffsetOrigin]:
    return {key: origin for key, origin in origins.items() if key not in changed}


def _headers(origin: OffsetOrigin | None) -> tuple[tuple[str, bytes], ...]:
    return () if origin is None else source_offset_headers(*origin)


def _origins_value(origins: Mapping[bytes, OffsetOrigin], offsets: Mapping[bytes, bytes | None]) -> bytes | None:
    """`{key: [value, topic id, leader epoch], …}`, None if there is none."""
    found = {}
    for key, (topic_id, epoch) in origins.items():
        value = offsets.get(key)
        if topic_id is not None and value is not None:
            found[key.decode()] = [value.decode(), topic_id_text(topic_id), epoch]
    return json_text.encode(found) if found else None


def _origins(value: bytes | None, offsets: Mapping[bytes, bytes | None]) -> dict[bytes, OffsetOrigin]:
    """The inverse, without those of other values than the file has. Anything unreadable counts as unknown."""
    found = {}
    for text, member in (json_text.decode_object(value) or {}).items():
        with contextlib.suppress(UnicodeEncodeError):
            key = text.encode()
            match member:
                case [str(of), str(topic_id), epoch] if is_integer(epoch) and offsets.get(key) == of.encode():
                    headers = source_offset_headers(parse_topic_id(topic_id), epoch)
                    found[key] = parse_source_offset_headers(headers)
    return found
