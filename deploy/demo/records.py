"""The demo's records: a producer writes them to kafka-1, and a consumer reads their copies on kafka-2."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition

from deploy.demo.proof import end_offsets
from deploy.demo.stage import READER
from deploy.local import LocalCluster

SOURCE_TOPIC: Final = "test"
TARGET_TOPIC: Final = "kafka-1.test"
PARTITIONS: Final = 2
WRITTEN_AT_ONCE: Final = 40
DELIVERY_S: Final = 60.0
SILENT_S: Final = 60.0
_NOT_YET: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


def line_of(cluster: str, message: Message) -> str:
    """A record in one line with its partition and offset."""
    value = message.value()
    text = "null" if value is None else value.decode(errors="replace")
    return f"{cluster}  {message.topic()}-{message.partition()} @ {message.offset():<3} {text}"


class SourceLines:
    """Writes real text into `test`, line by line: the source of Python's contextlib.

    Keys repeat, and every tenth record has none. An empty line is a tombstone. A header holds the line's number.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._lines = Path(contextlib.__file__).read_bytes().splitlines()
        self._producer = Producer({**cluster.librdkafka(READER), "compression.type": "lz4", "linger.ms": 5})
        self._consumer = Consumer({**cluster.librdkafka(READER), "group.id": "demo-ends"})
        self.written = 0

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def all_written(self) -> bool:
        """Whether all lines were written."""
        return self.written >= len(self._lines)

    def write_some(self, count: int = WRITTEN_AT_ONCE) -> None:
        """Writes the next lines, if there are any, and waits for their acknowledgement."""
        if not self.all_written:
            self.write(min(count, len(self._lines) - self.written))

    def write(self, count: int) -> None:
        """Writes the next lines; after the last one it starts over. RuntimeError if kafka-1 does not acknowledge them."""
        for number in range(self.written, self.written + count):
            key = None if number % 10 == 9 else f"key-{number % 7}".encode()
            value = self._lines[number % len(self._lines)].rstrip() or None
            self._producer.produce(SOURCE_TOPIC, value, key, headers={"line": str(number + 1).encode()})
        if self._producer.flush(DELIVERY_S):
            raise RuntimeError("kafka-1 did not acknowledge the demo's records")
        self.written += count

    def ends(self) -> dict[int, int]:
        """End offsets of `test` on kafka-1."""
        return end_offsets(self._consumer, SOURCE_TOPIC)

    def close(self) -> None:
        """Closes the connections."""
        self._producer.flush(1)
        self._consumer.close()


class Arrivals:
    """Follows `kafka-1.test` on kafka-2, from its beginning or from its present end."""

    def __init__(self, cluster: LocalCluster, *, from_beginning: bool = True) -> None:
        self._consumer = Consumer(
            {
                **cluster.librdkafka(READER),
                "group.id": "demo-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self._consumer.assign([TopicPartition(TARGET_TOPIC, partition, start) for partition in range(PARTITIONS)])
        self.count = 0

    def poll(self) -> Iterator[str]:
        """The records since the last call, each as a line with its partition and offset."""
        while (message := self._consumer.poll(0.02)) is not None:
            if error := message.error():
                if error.code() not in _NOT_YET:
                    raise RuntimeError(f"reading {TARGET_TOPIC}: {error.str()}")
                return
            self.count += 1
            yield line_of("kafka-2", message)

    def ends(self) -> dict[int, int]:
        """End offsets of `kafka-1.test` on kafka-2; empty while the topic doesn't exist."""
        return end_offsets(self._consumer, TARGET_TOPIC)

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()
