"""A task of the transactions' model: numbers of a source and its positions, by the product's own transactional producer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from mirror_connect.kafka_io.producer.transaction_errors import TransactionAbortedError
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.simulated import Process
from tests.fakes.transaction_broker import TransactionBroker
from tests.fakes.transactional_target import ID, NUMBER, NumberFeed, keyed_numbers, refused, served, write

TOPIC: Final = "a.orders"
OFFSETS: Final = "offsets"
PARTITIONS: Final = 2
REQUEST_S: Final = 3.0
TIMEOUT_S: Final = 8.0
INTERVAL_S: Final = 0.4
TICK_S: Final = 0.15
MOVED: Final = 16
SETTINGS: Final = ProducerSettings(
    request_timeout_ms=int(REQUEST_S * 1000), transaction_timeout_ms=int(TIMEOUT_S * 1000), metadata_max_age_s=1000
)


class Connection:
    """What a task's producer takes for its cluster, through the simulated network."""

    def __init__(self, process: Process, broker: TransactionBroker, moved: Callable[[], bool]) -> None:
        self.nodes = {1: None}
        self._process = process
        self._broker = broker
        self._moved = moved

    def leader(self, _topic: str, _partition: int) -> Leader:
        return Leader(1, 0)

    def topic_error(self, _topic: str) -> int:
        return 0

    def close_idle(self, _node_id: int) -> None:
        pass

    async def refresh(self, _topics: Iterable[str]) -> None:
        await asyncio.sleep(0)

    async def any_node(self, request: Any) -> Any:
        return await self.send(1, request)

    async def send(self, _node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, ApiVersions):
            await asyncio.sleep(0.01)
            return served(self._broker, request)
        write(request)
        return await self._process.call(lambda: self._served(request), REQUEST_S)

    def _served(self, request: Any) -> Any:
        asked = isinstance(request, (FindCoordinator, InitProducerId, AddPartitionsToTxn, EndTxn))
        if asked and self._moved():
            return refused(request, MOVED)
        if isinstance(request, Produce) and self._moved() and self._broker.protocol.gives_epochs:
            return refused(request, 19)
        return served(self._broker, request)


def positions(broker: TransactionBroker) -> list[int]:
    """The committed ones, up to the end of the log."""
    found = [0] * PARTITIONS
    for each in broker.log(OFFSETS).committed(beyond_stable=True):
        for key, number in keyed_numbers(each.payload):
            found[int(key)] = number
    return found


class Task:
    """One run. `source()`: how many numbers there are in each partition."""

    def __init__(
        self, process: Process, broker: TransactionBroker, moved: Callable[[], bool], source: Callable[[], int]
    ) -> None:
        self.process = process
        self._broker = broker
        self._source = source
        self._connection = Connection(process, broker, moved)
        self.fenced = False

    async def run(self) -> None:
        producer = BatchProducer(
            self._connection,  # type: ignore[arg-type]
            SETTINGS,
            ID,
            lambda: True,
            Problems(lambda _line: None),
            transactional=True,
        )
        try:
            await producer.start()
            copying = asyncio.create_task(self._copy(producer))
            # As in a task's frame: what ends the producer ends all.
            await asyncio.wait({copying, producer.failed}, return_when=asyncio.FIRST_COMPLETED)
            copying.cancel()
            await asyncio.gather(copying, return_exceptions=True)
            producer.failed.result() if producer.failed.done() else copying.result()
        except FencedError:
            self.fenced = True
        finally:
            with contextlib.suppress(RuntimeError):  # the process was killed
                await producer.close()

    async def _copy(self, producer: BatchProducer) -> None:
        transactions = producer.transactions
        assert transactions is not None
        begin = await self._process_call(lambda: positions(self._broker))
        feeds = [NumberFeed(0, size=2) for _ in range(PARTITIONS)]
        for feed, position in zip(feeds, begin, strict=True):
            feed.next = feed.acknowledged = feed.final = feed.end = position
        sides = [producer.partition(TOPIC, number, feed) for number, feed in enumerate(feeds)]
        own = OwnRecords(producer, OFFSETS, 0)

        async def fetch() -> None:
            while True:
                for feed, side in zip(feeds, sides, strict=True):
                    feed.end = self._source()
                    producer.wake(side)
                await asyncio.sleep(TICK_S)

        fetching = asyncio.create_task(fetch())
        try:
            while True:
                await transactions.begin()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(transactions.broken.wait(), INTERVAL_S)
                with contextlib.suppress(TransactionAbortedError):
                    await transactions.drain()
                    reached = [feed.acknowledged for feed in feeds]
                    await own.write([NewRecord(b"%d" % n, NUMBER.pack(each), 1) for n, each in enumerate(reached)])
                    await transactions.commit()
        finally:
            fetching.cancel()

    async def _process_call(self, serve: Callable[[], Any]) -> Any:
        while True:
            with contextlib.suppress(ConnectionError):
                return await self.process.call(serve, REQUEST_S)
