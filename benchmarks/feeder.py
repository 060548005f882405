"""Fills source topics as fast as a broker takes it: finished Produce requests, written to sockets as they are."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from benchmarks.broker_socket import BrokerSocket, request_frame
from benchmarks.payload import Batch
from mirror_connect.kafka_io.protocol.error_codes import error_name
from mirror_connect.kafka_io.protocol.produce import Produce, ProducePartition

VERSION: Final = 8
# A broker handles one request of a connection at a time.
CONNECTIONS: Final = 3
IN_FLIGHT: Final = 48
# Of a request.
MOST_PARTITIONS: Final = 16
IN_FLIGHT_BYTES: Final = 4 << 20
_PRODUCE: Final = Produce([])


class FeedError(RuntimeError):
    """The broker refused what was to be measured with."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole request with one batch for every partition."""

    data: bytes
    records: int


@dataclass(frozen=True, slots=True)
class Fed:
    """What was written: records, bytes on the wire, and the bytes without compression."""

    records: int
    wire_bytes: int
    raw_bytes: int


def frames(topic: str, partitions: int, pool: Sequence[Batch]) -> list[Frame]:
    """Requests with a batch for each of at most MOST_PARTITIONS; all partitions get as many, and each batch goes once.

    Where there are more partitions than batches, batches go several times.
    """
    made = []
    batches = itertools.cycle(pool)
    for _ in range(max(1, len(pool) // partitions)):
        for first in range(0, partitions, MOST_PARTITIONS):
            chosen = [(number, next(batches)) for number in range(first, min(partitions, first + MOST_PARTITIONS))]
            wanted = [ProducePartition(topic, number, [batch.data]) for number, batch in chosen]
            data = request_frame(Produce(wanted, acks=1), VERSION)
            made.append(Frame(data, sum(batch.records for _, batch in chosen)))
    return made


def feed(address: str, topic: str, partitions: int, pool: Sequence[Batch], records: int) -> Fed:
    """Writes at least `records` records, spread evenly, and returns when all are acknowledged."""
    requests = frames(topic, partitions, pool)
    lines = [_Line(address) for _ in range(CONNECTIONS)]
    written = sent_bytes = 0
    try:
        for line, request in zip(itertools.cycle(lines), itertools.cycle(requests), strict=False):
            if written >= records:
                break
            line.send(request)
            written += request.records
            sent_bytes += len(request.data)
        for line in lines:
            line.drain()
    finally:
        for line in lines:
            line.close()
    return Fed(written, sent_bytes, int(written * sum(b.raw_bytes for b in pool) / sum(b.records for b in pool)))


class SteadyFeed:
    """Keeps a topic growing at `bytes_per_second` in a thread of its own while the block lasts."""

    def __init__(
        self, address: str, topic: str, partitions: int, pool: Sequence[Batch], bytes_per_second: float
    ) -> None:
        self._requests = frames(topic, partitions, pool)
        self._address = address
        self._pace = bytes_per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        line = _Line(self._address)
        began, sent = time.monotonic(), 0
        try:
            for request in itertools.cycle(self._requests):
                ahead = sent / self._pace - (time.monotonic() - began)
                if self._stop.wait(ahead) if ahead > 0.01 else self._stop.is_set():
                    break
                line.send(request)
                sent += len(request.data)
            line.drain()
        finally:
            line.close()


class _Line:
    """One connection with requests in flight."""

    def __init__(self, address: str) -> None:
        self._broker = BrokerSocket(address)
        self._in_flight: deque[int] = deque()

    def send(self, request: Frame) -> None:
        # Never so much at once that both ends only write and wait for each other.
        while self._in_flight and (
            len(self._in_flight) >= IN_FLIGHT or sum(self._in_flight) + len(request.data) > IN_FLIGHT_BYTES
        ):
            self._answer()
        self._broker.send(request.data)
        self._in_flight.append(len(request.data))

    def drain(self) -> None:
        while self._in_flight:
            self._answer()

    def close(self) -> None:
        self._broker.close()

    def _answer(self) -> None:
        reply = self._broker.receive(_PRODUCE, VERSION)
        self._in_flight.popleft()
        for each in reply.partitions:
            if each.error:
                raise FeedError(f"{each.topic}-{each.partition}: {error_name(each.error)} {each.message}")
