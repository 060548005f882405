"""Reading topics back by what is not ours: librdkafka, Kafka's DumpLogSegments, and the brokers' own segment files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition

from deploy.local import LocalCluster
from tests.brokers import messages
from tests.e2e.ends import end_offsets
from tests.waiting import PATIENCE_S, WaitTimedOut

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
# What DumpLogSegments prints and a copy has of its own.
_OWN: Final = re.compile(r" (sequence|producerId|producerEpoch|isTransactional): \S+|^\| ")


class Record(NamedTuple):
    """A record as librdkafka gives it. `timestamp` in ms, `append_time`: the broker's clock set it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    append_time: bool


class Batch(NamedTuple):
    """A batch as it lies on the disk; `size`: how many records it has, `records`: their bytes, compressed or not."""

    base_offset: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer: tuple[int, int]
    size: int
    records: bytes


class Dump(NamedTuple):
    """What Kafka's tool says of a partition: its batches as (count, size, codec), and a line for each record."""

    batches: list[tuple[str, str, str]]
    records: list[str]
    invalid: list[str]


def records(
    cluster: LocalCluster, topic: str, partition: int, *, isolation: str = "read_uncommitted"
) -> Iterator[Record]:
    """The same as records."""
    for message in messages(cluster, topic, partition, isolation=isolation):
        kind, timestamp = message.timestamp()
        headers = tuple(message.headers() or ())
        yield Record(message.offset(), message.key(), message.value(), headers, timestamp, kind == 2)


def last_value(cluster: LocalCluster, topic: str, partition: int) -> bytes | None:
    """The value of the record that lies last; None if there is none. Of a topic without transactions."""
    message = last_message(cluster, topic, partition)
    return None if message is None else message.value()


def last_message(cluster: LocalCluster, topic: str, partition: int) -> Message | None:
    """The record that lies last; None if there is none. Of a topic without transactions."""
    end = end_offsets(cluster, topic).get(partition, 0)
    if not end:
        return None
    consumer = Consumer({**cluster.librdkafka(), "group.id": "last", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, end - 1)])
        message = consumer.poll(PATIENCE_S)
        if message is None:
            raise WaitTimedOut(f"not within {PATIENCE_S:g} s: the broker of {topic}-{partition} answers")
        assert message.error() is None
        return message
    finally:
        consumer.close()


def values(cluster: LocalCluster, topic: str, partitions: int) -> list[list[bytes | None]]:
    """The values of each partition, in order."""
    return [[record.value for record in records(cluster, topic, partition)] for partition in range(partitions)]


def batches(cluster: LocalCluster, topic: str, partition: int) -> list[Batch]:
    """The batches in the segment files of broker 1."""
    found = []
    for segment in sorted(cluster.partition_directory(topic, partition).glob("*.log")):
        content, at = segment.read_bytes(), 0
        while at + _HEADER.size <= len(content):
            base, length, _, _, _, attributes, delta, first, last, pid, epoch, _, count = _HEADER.unpack_from(
                content, at
            )
            if length == 0:
                break  # Room that the broker has set aside.
            end = at + 12 + length
            body = content[at + _HEADER.size : end]
            found.append(Batch(base, attributes, delta, first, last, (pid, epoch), count, body))
            at = end
    return found


def data_batches(cluster: LocalCluster, topic: str, partition: int) -> list[tuple[int, int, int, int, int, bytes]]:
    """Of each batch what a copy keeps: codec, offsets, timestamps, count, and the bytes of its records."""
    return [
        (b.attributes & 7, b.last_offset_delta, b.base_timestamp, b.max_timestamp, b.size, b.records)
        for b in batches(cluster, topic, partition)
        if not b.attributes & CONTROL
    ]


def dumped(cluster: LocalCluster, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Dump]:
    """What DumpLogSegments prints of these partitions, all in one run of it, without what is a copy's own."""
    files = {
        str(file): partition
        for partition in partitions
        for file in sorted(cluster.partition_directory(*partition).glob("*.log"))
    }
    text = cluster.run_tool(
        "org.apache.kafka.tools.DumpLogSegments", ["--files", ",".join(files), "--print-data-log"], seconds=200
    )
    found = {partition: Dump([], [], []) for partition in partitions}
    current = Dump([], [], [])
    for line in text.split("\n"):  # splitlines() would also split at form feeds, which sources have
        if line.startswith("Dumping "):
            current = found[files[line.removeprefix("Dumping ")]]
        elif line.startswith("| "):
            if "endTxnMarker" not in line:
                current.records.append(_OWN.sub("", line))
        elif line.startswith("baseOffset: "):
            words = line.split()
            says = dict(zip(words[::2], words[1::2], strict=False))
            if says["isControl:"] == "false":
                current.batches.append((says["count:"], says["size:"], says["compresscodec:"]))
            if says["isvalid:"] != "true":
                current.invalid.append(line)
    return found
