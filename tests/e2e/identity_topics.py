"""Source topics of every shape that a copy has to keep, written by librdkafka."""

from __future__ import annotations

import contextlib
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local import LocalCluster
from tests.brokers import FULL_BATCHES, flushed
from tests.e2e.ends import end_offsets
from tests.e2e.reading import batches, records
from tests.waiting import wait_for_state

# Codec → partitions of its topic.
TEXT: Final = {"none": 1, "gzip": 2, "snappy": 5, "lz4": 16, "zstd": 8}
TEXT_LINES: Final = 300_000
SHAPES_PARTITIONS, SINGLES_PARTITIONS = 3, 4
# Old enough to be seen as what it is, and not the producer's clock.
EXPLICIT_MS: Final = 1_000_000_000_123
BIG: Final = 900 * 1024
# Topic of the source → partitions. Prefixed as no other test's topics are, so that one pattern takes them all.
PREFIX: Final = "identity"
SHAPES, SINGLES, TX, COMPACTED, APPENDED = (
    f"{PREFIX}-{n}" for n in ("shapes", "singles", "tx", "compacted", "appended")
)
TEXTS: Final = {f"{PREFIX}-text-{codec}": partitions for codec, partitions in TEXT.items()}
SAME_OFFSETS: Final = {**TEXTS, SHAPES: SHAPES_PARTITIONS, SINGLES: SINGLES_PARTITIONS}
ALL: Final = {**SAME_OFFSETS, TX: 2, COMPACTED: 1, APPENDED: 2}
# Old timestamps are what retention deletes by.
KEEP: Final = {"retention.ms": "-1"}

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Written:
    """What lies in the source: records of each topic, lines of text, and how many records of TX are committed."""

    source: LocalCluster
    records: Mapping[str, int]
    text_lines: int
    committed: int


def write_all(source: LocalCluster) -> Written:
    """Creates and fills every topic of ALL."""
    for topic, partitions in ALL.items():
        if topic == APPENDED:
            source.create_topic(topic, partitions, {"message.timestamp.type": "LogAppendTime"})
        elif topic != COMPACTED:
            source.create_topic(topic, partitions, KEEP)
    counts = {COMPACTED: produce_compacted(source, COMPACTED)}
    text_lines = produce_text(source, lambda codec: f"{PREFIX}-text-{codec}")
    counts |= {topic: sum(end_offsets(source, topic).values()) for topic in TEXTS}
    counts[SHAPES] = produce_shapes(source, SHAPES)
    produce_singles(source, SINGLES)
    counts[SINGLES] = 4_000
    counts[TX], committed = produce_transactions(source, TX)
    for codec in TEXT:
        produce(
            source,
            APPENDED,
            [{"value": f"{codec} {n}", "partition": n % 2, "timestamp": EXPLICIT_MS} for n in range(200)],
            **{"compression.type": codec},
        )
    counts[APPENDED] = 200 * len(TEXT)
    return Written(source, counts, text_lines, committed)


def produce(cluster: LocalCluster, topic: str, records_: Iterable[Fields], **settings: Any) -> None:
    """Produces keyword arguments of Producer.produce, and waits for the acknowledgements."""
    refused: list[str] = []
    told = {"delivery.report.only.error": True, "on_delivery": lambda error, _: refused.append(error.str())}
    producer = Producer({**cluster.librdkafka(), **FULL_BATCHES, **told, **settings})
    _send(producer, topic, records_)
    flushed(producer)
    assert refused[:3] == []


def produce_text(cluster: LocalCluster, name: Callable[[str], str]) -> int:
    """Every line of the standard library's sources, dealt to a topic for each codec; returns how many."""
    lines = list(library_lines())
    assert len(lines) >= TEXT_LINES
    for number, (codec, partitions) in enumerate(TEXT.items()):
        share = (
            {"value": line, "key": file, "partition": count % partitions}
            for count, (file, line) in enumerate(lines[number :: len(TEXT)])
        )
        # Batches of usual size: smaller ones may be merged with their neighbours.
        usual = {"compression.type": codec, "batch.size": 100_000, "batch.num.messages": 1_000}
        produce(cluster, name(codec), share, **usual)
    return len(lines)


def library_lines() -> Iterator[tuple[bytes, bytes]]:
    """(file name, line) of every line of the standard library, its tests left out."""
    root = Path(sysconfig.get_path("stdlib"))
    for file in sorted(root.rglob("*.py")):
        if not {"site-packages", "test", "tests"} & set(file.parts):
            for line in file.read_bytes().split(b"\n"):
                yield file.name.encode(), line


def produce_shapes(cluster: LocalCluster, topic: str) -> int:
    """Records with and without everything that a record may have; returns how many."""
    headers = [("a", b"1"), ("a", b"2"), ("nothing", None), ("empty", b""), ("schlüssel", bytes(range(256)))]
    shapes: list[Fields] = [
        {"value": b"no key"},
        {"value": None, "key": b"tombstone"},
        {"value": None},
        {"value": b"", "key": b"empty value"},
        {"value": b"empty key", "key": b""},
        {"value": b"with headers", "key": b"k", "headers": headers},
        {"value": None, "key": b"tombstone with headers", "headers": headers},
        {"value": bytes(range(256)) * 4, "key": bytes(range(256))},
        {"value": b"old", "key": b"k", "timestamp": EXPLICIT_MS},
        {"value": b"older than the one before", "key": b"k", "timestamp": EXPLICIT_MS - 86_400_000},
        {"value": b"of the first millisecond", "key": b"k", "timestamp": 1},
    ]
    count = 0
    for codec in TEXT:
        for partition in range(SHAPES_PARTITIONS):
            rows = [{**shape, "partition": partition} for shape in shapes]
            produce(cluster, topic, rows, **{"compression.type": codec})
            big = b"".join(number.to_bytes(4, "big") for number in range(BIG // 4))
            produce(cluster, topic, [{"value": big, "partition": partition}], **{"compression.type": codec})
            count += len(rows) + 1
    return count


def produce_singles(cluster: LocalCluster, topic: str, number: int = 4_000) -> None:
    """Batches of one record each; librdkafka leaves a batch uncompressed when that doesn't make it smaller."""
    rows = ({"value": b"single %d " % n * 20, "partition": n % SINGLES_PARTITIONS} for n in range(number))
    produce(cluster, topic, rows, **{"linger.ms": 0, "batch.num.messages": 1, "compression.type": "lz4"})


def produce_transactions(cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """Transactions committed and aborted, alone and interleaved, in two partitions; (all records, committed ones)."""
    every = committed = 0
    writers = [
        Producer({**cluster.librdkafka(), "transactional.id": f"{topic}-{n}", "compression.type": codec})
        for n, codec in enumerate(("none", "zstd"))
    ]
    for writer in writers:
        writer.init_transactions(60)
    for turn in range(12):
        first, second = writers
        first.begin_transaction()
        second.begin_transaction()
        commits = (turn % 3 != 0, turn % 2 == 0)
        for part in range(3):
            for writer, commit in zip(writers, commits, strict=True):
                rows = [{"value": f"{turn}.{part}.{n} {commit}", "partition": n % 2} for n in range(8)]
                _send(writer, topic, rows)
                flushed(writer)
                every += len(rows)
                committed += len(rows) if commit else 0
        for writer, commit in zip(writers, commits, strict=True):
            writer.commit_transaction(60) if commit else writer.abort_transaction(60)
    return every, committed


def produce_compacted(cluster: LocalCluster, topic: str) -> int:
    """Keys written again and again, with tombstones, until the cleaner has left gaps; returns what is left."""
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    often = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    broker.add_incremental_config(often)
    cluster.admin().incremental_alter_configs([broker])[broker].result(180)
    cluster.create_topic(
        topic,
        config={
            "cleanup.policy": "compact",
            "segment.ms": "500",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
        },
    )
    wanted: dict[bytes, bytes | None] = {}
    start = int(time.time() * 1000) - 20_000
    for wave in range(6):
        rows: list[Fields] = []
        for n in range(300):
            # Some keys in every wave, some in one only: each batch keeps a few of its records.
            key = b"own %d.%d" % (wave, n) if n % 3 == 0 else b"common %d" % n
            value = None if n % 50 == 7 else b"wave %d" % wave
            wanted[key] = value
            # Segments roll by the records' time.
            rows.append({"key": key, "value": value, "timestamp": start + wave * 1000 + n})
        produce(cluster, topic, rows, **{"compression.type": "lz4" if wave % 2 else "none"})
    produce(
        cluster, topic, [{"key": b"last", "value": b"keeps the segments before it closed", "timestamp": start + 9000}]
    )
    wanted[b"last"] = b"keeps the segments before it closed"

    def cleaned() -> bool:
        # While the cleaner swaps a file in, the file that was listed is gone.
        with contextlib.suppress(FileNotFoundError):
            return sum(1 for _ in records(cluster, topic, 0)) == len(wanted) and any(
                batch.size <= batch.last_offset_delta for batch in batches(cluster, topic, 0)
            )
        return False

    wait_for_state(cleaned, f"{topic} is compacted and has gaps", pause=0.3)
    return len(wanted)


def _send(producer: Producer, topic: str, rows: Iterable[Fields]) -> None:
    for row in rows:
        while True:
            try:
                producer.produce(topic, **row)
                break
            except BufferError:
                producer.poll(0.05)
