"""Fills source topics as fast as a broker takes it: finished Produce requests, written to sockets as they are."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from benchmarks.broker_socket import BrokerSocket, request_frame
from benchmarks.payload import Batch
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.error_codes import error_name
from mirror_connect.kafka_io.protocol.log_offsets import LATEST, ListOffsets
from mirror_connect.kafka_io.protocol.produce import Produce, ProducePartition

VERSION: Final = 8
LIST_OFFSETS_VERSION: Final = 4
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
    """A whole request with one batch for each of its partitions. `address`: of the broker that leads them."""

    data: bytes
    records: int
    address: str


@dataclass(frozen=True, slots=True)
class Fed:
    """What was written: records, bytes on the wire, and the bytes without compression."""

    records: int
    wire_bytes: int
    raw_bytes: int


def leaders(addresses: str, topic: str, partitions: int) -> dict[str, Sequence[int]]:
    """Address → partitions that the broker there leads. `addresses`: `host:port,…` of all brokers, without encryption."""
    first, *others = addresses.split(",")
    if not others:
        return {first: range(partitions)}
    wanted = ListOffsets({TopicPartition(topic, number): (LATEST, -1) for number in range(partitions)})
    found: dict[str, Sequence[int]] = {}
    for address in (first, *others):
        broker = BrokerSocket(address)
        try:
            # Who does not lead a partition says so.
            led = [each.partition for each in broker.call(wanted, LIST_OFFSETS_VERSION) if not each.error]
        finally:
            broker.close()
        if led:
            found[address] = led
    return found


def frames(topic: str, led: Mapping[str, Sequence[int]], pool: Sequence[Batch]) -> list[Frame]:
    """Requests with a batch for each of at most MOST_PARTITIONS; all partitions get as many, and each batch goes once.

    `led`: address → partitions. Where there are more partitions than batches, batches go several times.
    """
    made = []
    batches = itertools.cycle(pool)
    for _ in range(max(1, len(pool) // sum(map(len, led.values())))):
        for address, numbers in led.items():
            for first in range(0, len(numbers), MOST_PARTITIONS):
                chosen = [(number, next(batches)) for number in numbers[first : first + MOST_PARTITIONS]]
                wanted = [ProducePartition(topic, number, [batch.data]) for number, batch in chosen]
                data = request_frame(Produce(wanted, acks=1), VERSION)
                made.append(Frame(data, sum(batch.records for _, batch in chosen), address))
    return made


def feed(addresses: str, topic: str, partitions: int, pool: Sequence[Batch], records: int) -> Fed:
    """Writes at least `records` records, spread evenly, and returns when all are acknowledged.

    `addresses`: `host:port,…` of the brokers.
    """
    led = leaders(addresses, topic, partitions)
    lines = {address: [_Line(address) for _ in range(CONNECTIONS)] for address in led}
    turns = {address: itertools.cycle(each) for address, each in lines.items()}
    written = sent_bytes = 0
    try:
        for request in itertools.cycle(frames(topic, led, pool)):
            if written >= records:
                break
            next(turns[request.address]).send(request)
            written += request.records
            sent_bytes += len(request.data)
        for line in itertools.chain.from_iterable(lines.values()):
            line.drain()
    finally:
        for line in itertools.chain.from_iterable(lines.values()):
            line.close()
    return Fed(written, sent_bytes, int(written * sum(b.raw_bytes for b in pool) / sum(b.records for b in pool)))


class SteadyFeed:
    """Keeps a topic growing at `bytes_per_second` in a thread of its own while the block lasts."""

    def __init__(
        self, addresses: str, topic: str, partitions: int, pool: Sequence[Batch], bytes_per_second: float
    ) -> None:
        self._led = leaders(addresses, topic, partitions)
        self._requests = frames(topic, self._led, pool)
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
        lines = {address: _Line(address) for address in self._led}
        began, sent = time.monotonic(), 0
        try:
            for request in itertools.cycle(self._requests):
                ahead = sent / self._pace - (time.monotonic() - began)
                if self._stop.wait(ahead) if ahead > 0.01 else self._stop.is_set():
                    break
                lines[request.address].send(request)
                sent += len(request.data)
            for line in lines.values():
                line.drain()
        finally:
            for line in lines.values():
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
