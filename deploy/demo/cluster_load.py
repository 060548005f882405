"""What the demo copies on a Spark cluster: records that are written without a pause, and a reader of their copies."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from deploy.demo.proof import end_offsets
from deploy.local import LocalCluster

SOURCE_TOPIC: Final = "orders"
TARGET_TOPIC: Final = "kafka-1.orders"
PARTITIONS: Final = 16
RATE: Final = 2_000
PADDING: Final = b"x" * 200
BURST_S: Final = 0.02
DELIVERY_S: Final = 60.0
AT_ONCE: Final = 5_000
_NOT_YET: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class Load:
    """Writes numbered records into `orders` on kafka-1, RATE a second, from `start` to `stop`."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.written = 0
        self._failures: list[str] = []
        self._producer = Producer(
            {**cluster.librdkafka(), "linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True}
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="load", daemon=True)

    def start(self) -> None:
        """Starts to write."""
        self._thread.start()

    def stop(self) -> None:
        """Writes no more. RuntimeError if kafka-1 has not acknowledged all records."""
        self.end()
        if self._producer.flush(DELIVERY_S) or self._failures:
            raise RuntimeError(f"kafka-1 did not acknowledge the demo's records {' '.join(self._failures[:1])}")

    def end(self) -> None:
        """Writes no more, whatever was acknowledged."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _write(self) -> None:
        began = time.monotonic()
        while not self._over.wait(BURST_S):
            for number in range(self.written, int((time.monotonic() - began) * RATE)):
                self._producer.produce(
                    SOURCE_TOPIC,
                    b"%d %s" % (number, PADDING),
                    b"key-%d" % (number % 1_000),
                    number % PARTITIONS,
                    headers=[("number", b"%d" % number)],
                    on_delivery=self._delivered,
                )
                self.written = number + 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error.str())


class Copies:
    """Reads `kafka-1.orders` on kafka-2 as an application would: committed records alone."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.count = 0
        # Partition → the offset behind its newest record.
        self._read: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **cluster.librdkafka(),
                "group.id": "demo-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition(TARGET_TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])

    def poll(self) -> None:
        """Takes what has come since the last call."""
        full = True
        # What comes meanwhile waits for the next call, as records never end.
        while full:
            messages = self._consumer.consume(AT_ONCE, 0)
            full = len(messages) == AT_ONCE
            for message in messages:
                if error := message.error():
                    if error.code() not in _NOT_YET:
                        raise RuntimeError(f"reading {TARGET_TOPIC}: {error.str()}")
                    continue
                self.count += 1
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._read[partition] = offset + 1

    def ends(self) -> dict[int, int]:
        """End offsets of the partitions now, with what is not committed."""
        return end_offsets(self._consumer, TARGET_TOPIC)

    def beyond(self, ends: Mapping[int, int]) -> int:
        """In how many partitions a record was read that lies behind these offsets."""
        return sum(self._read.get(partition, 0) > end for partition, end in ends.items())

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()
