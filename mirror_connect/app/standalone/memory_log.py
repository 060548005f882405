"""A log of one process in its memory: what Connect's standalone mode keeps of configs and statuses ends with the process."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from mirror_connect.app.storage.topic_log import READ_TIMEOUT, Entry, OnRecord, skipped_line
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

log = logging.getLogger(__name__)


class MemoryLog:
    """A TopicLog (storage/topic_log.py) that begins empty. Records arrive before `append` returns."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._on_record: OnRecord | None = None
        self._end = 0

    @property
    def name(self) -> str:
        """See TopicLog."""
        return self._name

    async def start(self, on_record: OnRecord) -> None:
        """See TopicLog."""
        self._on_record = on_record

    async def read_to_end(self, timeout: float = READ_TIMEOUT) -> None:
        """See TopicLog. What was appended has been passed on."""

    @property
    def claimed(self) -> bool:
        """See TopicLog. Nobody else writes here."""
        return True

    async def claim(self) -> None:
        """See TopicLog."""

    def relinquish(self) -> None:
        """See TopicLog."""

    async def append(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog."""
        await self.append_all([(key, value)])

    async def append_all(self, entries: Sequence[Entry]) -> None:
        """See TopicLog."""
        for key, value in entries:
            self.deliver(key, value)

    async def append_as_member(self, key: bytes, value: bytes | None) -> None:
        """See TopicLog."""
        await self.append(key, value)

    async def stop(self) -> None:
        """See TopicLog."""
        self._on_record = None

    def deliver(self, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> None:
        """Passes a record on."""
        record = LogRecord(key, value, 0, self._end, int(time.time() * 1000), headers)
        self._end += 1
        if self._on_record is None:
            return
        try:
            self._on_record(record)
        except Exception:
            # As of a topic: one record must not keep others back.
            log.exception(skipped_line(self, record, "reading it failed unexpectedly"))
