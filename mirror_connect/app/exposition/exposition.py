"""A scrape: what the process measures as the text that Prometheus reads. It never blocks the worker's loop for long."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from mirror_connect.app.exposition.kafka_names import NameSet
from mirror_connect.app.exposition.kafka_series import KafkaSeries
from mirror_connect.app.exposition.measured import SOURCE, MeasuredConnector, MeasuredProcess, MeasuredWorker
from mirror_connect.app.exposition.own_reading import OwnReading
from mirror_connect.app.exposition.page import Format, Series, written
from mirror_connect.app.exposition.partition_rows import Detail, PartitionRow, partition_rows

# A format, and whether it is compressed.
_Wanted = tuple[Format, bool]
Rows = list[tuple[MeasuredWorker, MeasuredConnector, list[PartitionRow]]]
# After so long other work of the loop has its turn.
TURN_S: Final = 0.001
CHUNK: Final = 1 << 16
# A scrape that is asked for within this time gets the one before it: several servers, or anybody at a port without a login,
# must not multiply the work.
SHARED_S: Final = 1.0
# The fastest level: the text repeats itself, and becomes a fortieth.
_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class ExpositionSettings:
    """What the settings metrics.names and metrics.detail choose."""

    names: tuple[NameSet, ...] = (NameSet.JMX,)
    detail: Detail = Detail.PARTITION


def pieces_of(process: MeasuredProcess, settings: ExpositionSettings, text_format: Format) -> Iterator[str]:
    """The text in pieces, each of which is a millisecond of work at most; some are empty."""
    rows: Rows = []
    yield from ("" for _ in _read(process, settings.detail, rows))
    for series in _series(process, settings, rows):
        if series is None:
            yield ""
        else:
            yield from written(series, text_format)


def _read(process: MeasuredProcess, detail: Detail, rows: Rows) -> Iterator[None]:
    """Adds the rows of all copying connectors to `rows`; None: a place for a pause."""
    for worker in process.workers:
        for connector in worker.connectors:
            if connector.kind != SOURCE:
                continue
            found: list[PartitionRow] = []
            rows.append((worker, connector, found))
            for row in partition_rows(worker, connector, detail):
                if row is None:
                    yield None
                else:
                    found.append(row)


def _series(process: MeasuredProcess, settings: ExpositionSettings, rows: Rows) -> Iterator[Series | None]:
    # MirrorMaker's own names are the same in both sets, and a series may come only once.
    seen: set[str] = set()
    for names in settings.names:
        for series in KafkaSeries(process, names, rows, settings.detail).all():
            if series is None or series.name not in seen:
                yield series
            if series is not None:
                seen.add(series.name)
    yield from OwnReading(process, rows).all()


class Exposition:
    """See the module. `measured` gives what a scrape shows."""

    def __init__(
        self,
        measured: Callable[[], MeasuredProcess],
        settings: ExpositionSettings = ExpositionSettings(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measured = measured
        self._settings = settings
        self._clock = clock
        self._made: dict[_Wanted, tuple[float, asyncio.Task[list[bytes]]]] = {}
        # Of this process alone, and of Python in it.
        self._own_process = CollectorRegistry()
        ProcessCollector(registry=self._own_process)
        PlatformCollector(registry=self._own_process)

    async def chunks(self, text_format: Format, *, gzip: bool = False) -> list[bytes]:
        """The text of a scrape, in chunks of some 64 KiB; with `gzip` compressed."""
        wanted = (text_format, gzip)
        made = self._made.get(wanted)
        if made is None or (made[1].done() and (self._clock() - made[0] >= SHARED_S or made[1].exception())):
            making = self._compress(text_format) if gzip else self._make(text_format)
            made = (self._clock(), asyncio.create_task(making))
            self._made[wanted] = made
            asyncio.get_running_loop().call_later(SHARED_S, self._forget, wanted, made)
        # One that leaves must not cancel it for the others.
        return await asyncio.shield(made[1])

    def _forget(self, wanted: _Wanted, made: tuple[float, asyncio.Task[list[bytes]]]) -> None:
        # It may be megabytes, and the next scrape is fifteen seconds away.
        if self._made.get(wanted) is made and made[1].done():
            del self._made[wanted]

    async def _compress(self, text_format: Format) -> list[bytes]:
        compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        chunks: list[bytes] = []
        for chunk in await self.chunks(text_format):
            chunks.append(compressor.compress(chunk))
            # A chunk takes half a millisecond.
            await asyncio.sleep(0)
        return [*filter(None, chunks), compressor.flush()]

    async def _make(self, text_format: Format) -> list[bytes]:
        chunks: list[bytes] = []
        open_: list[str] = []
        size, turn = 0, time.perf_counter()
        for piece in pieces_of(self._measured(), self._settings, text_format):
            open_.append(piece)
            size += len(piece)
            if size >= CHUNK:
                chunks.append("".join(open_).encode())
                open_, size = [], 0
            if time.perf_counter() - turn > TURN_S:
                await asyncio.sleep(0)
                turn = time.perf_counter()
        open_.append(self._process_text(text_format))
        chunks.append("".join(open_).encode())
        return chunks

    def _process_text(self, text_format: Format) -> str:
        if text_format is Format.OPEN_METRICS:
            # With the last line.
            return str(openmetrics.generate_latest(self._own_process), "utf-8")  # type: ignore[no-untyped-call]
        return str(generate_latest(self._own_process), "utf-8")
