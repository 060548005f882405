"""Kafka's own classes read the same records in the batches made for the target as in those of the source.

The batches made for the target also pass what a broker does with a produce request. Needs Java, no broker; one run of it.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.java import java_command
from deploy.local.kafka_jars import class_path
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.batch_split import split
from mirror_connect.kafka_io.records.compression import LZ4
from mirror_connect.kafka_io.records.record_batch import (
    HEADER,
    BatchView,
    NewRecord,
    ProducerBatch,
    as_is,
    needs_rewrite,
    split_fetch,
    stamp,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes.encoded_batches import CODECS, NOW, encode, patched, some_records, with_records
from tests.fakes.lz4_frames import frame
from tests.paths import FIXTURES, TESTS

SOURCES = {
    name: bytes.fromhex(content)
    for name, _, content in map(str.split, (FIXTURES / "record-batches" / "batches.txt").read_text().splitlines())
}
# Where the batches of the fixtures begin, in their midst, and behind them.
FIRST, MIDDLE, END = 1_000, 1_006, 1_012
SEEDS = range(4)


class Read(NamedTuple):
    """What Kafka reads from some bytes: `ok` or an exception; (offset, everything else) of each record."""

    verdict: str
    records: list[tuple[int, str]]


def read_by_kafka(batches: Mapping[str, tuple[str, bytes]], directory: Path) -> dict[str, Read]:
    """`batches`: name → (`source` or `target`, bytes); see KafkaRecords.java."""
    listed = directory / "batches.txt"
    listed.write_text("".join(f"{name} {kind} {content.hex()}\n" for name, (kind, content) in batches.items()))
    command = [
        *java_command(),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        class_path(),
        str(TESTS / "java" / "KafkaRecords.java"),
    ]
    done = subprocess.run([*command, str(listed)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Read] = {}
    records: list[tuple[int, str]] = []
    for line in done.stdout.splitlines():
        first, _, rest = line.partition(" ")
        if first.isdigit():
            records.append((int(first), rest))
        else:
            records = []
            found[first] = Read(rest, records)
    assert found.keys() == batches.keys()
    return found


def decided(content: bytes, from_offset: int) -> Iterator[ProducerBatch]:
    """What is copied of these batches, as the source task decides it."""
    for view in split_fetch(content):
        verify(view)
        batch = None if view.is_control else one(view, from_offset)
        if batch is not None:
            yield batch


def one(view: BatchView, from_offset: int) -> ProducerBatch | None:
    return next(rewrite(view, from_offset), None) if needs_rewrite(view, from_offset) else as_is(view)


def in_small_pieces(batches: Sequence[ProducerBatch]) -> list[ProducerBatch]:
    # The fixtures' records are smaller than the random ones.
    limit = 330 if all(each.last_offset <= END for each in batches) else 1_700
    return [piece for each in batches for piece in split(each, limit)]


def merged(batches: Sequence[ProducerBatch]) -> list[ProducerBatch]:
    return [merge(batches)[0]] if batches else []


def split_merged_and_split(batches: Sequence[ProducerBatch]) -> list[ProducerBatch]:
    return in_small_pieces(merged(in_small_pieces(batches)))


WAYS: dict[str, Callable[[Sequence[ProducerBatch]], Sequence[ProducerBatch]]] = {
    "alone": list,
    "merged": merged,
    "split": in_small_pieces,
    "split-merged-split": split_merged_and_split,
}


class Made(NamedTuple):
    """One way of copying some source bytes from an offset on."""

    source: str
    from_offset: int
    way: str
    batches: Sequence[ProducerBatch]

    @property
    def name(self) -> str:
        return f"{self.source}-from-{self.from_offset}-{self.way}"

    @property
    def upstream_offsets(self) -> list[int]:
        runs = [r for each in self.batches for r in each.upstream_offsets or ((each.first_offset, each.count),)]
        return [offset for first, count in runs for offset in range(first, first + count)]


def all_ways(source: str, content: bytes, from_offset: int) -> Iterator[Made]:
    batches = list(decided(content, from_offset))
    for way, function in WAYS.items():
        yield Made(source, from_offset, way, function(batches))


def random_sources() -> Iterator[tuple[str, bytes]]:
    for codec_name, codec in CODECS.items():
        for seed in SEEDS:
            rng = random.Random(seed)
            parts, offset = [], FIRST
            for number in range(30):
                records = some_records(1_000 * seed + number, rng.randint(1, 6), first=offset, gaps=rng.random() < 0.3)
                last = records[-1].offset + rng.choice([0, 0, 3])
                parts.append(encode(records, codec, base=offset, last=last))
                offset = last + 1 + rng.choice([0, 0, 2])
            yield f"random-{codec_name}-{seed}", b"".join(parts)
    # Several blocks as Java writes them, whose matches are taken over (docs/decisions/0069).
    plain = encode(some_records(7, 500, first=FIRST, gaps=True), base=FIRST)
    yield "long-lz4", with_records(plain, frame(plain[HEADER.size :]), attributes=LZ4)


class Judged(NamedTuple):
    """Everything that was made, and what Kafka read in it."""

    made: list[Made]
    read: dict[str, Read]

    def by(self, way: str) -> list[Made]:
        found = [each for each in self.made if each.way == way]
        # Dropping everything would prove nothing.
        assert sum(len(each.batches) for each in found) > 100
        assert {batch.codec for each in found for batch in each.batches} == {*range(5)}
        return found

    def targets(self, made: Made) -> list[Read]:
        return [self.read[f"{made.name}/{number}"] for number in range(len(made.batches))]

    def wanted(self, made: Made) -> list[tuple[int, str]]:
        return [record for record in self.read[made.source].records if record[0] >= made.from_offset]


OWN = Made(
    "own", 0, "built", [build([NewRecord(None, b"v", NOW), NewRecord(b"k", None, NOW - 5), NewRecord(b"", b"", -1)])]
)

REFUSED: dict[str, dict[str, int]] = {
    "fewer-records-than-counted": {"count": 4, "last_delta": 3},
    "more-records-than-counted": {"count": 2, "last_delta": 1},
    "gaps": {"last_delta": 9},
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    sources = {**SOURCES, **dict(random_sources())}
    made = [each for name in SOURCES for start in (FIRST, MIDDLE, END) for each in all_ways(name, SOURCES[name], start)]
    made += [each for name, content in random_sources() for each in all_ways(name, content, FIRST)]
    made.append(OWN)
    batches = {name: ("source", content) for name, content in sources.items()}
    for each in made:
        for number, batch in enumerate(each.batches):
            batches[f"{each.name}/{number}"] = ("target", stamp(batch, 7, 1, 40))
    for name, damage in REFUSED.items():
        batches[f"refused/{name}"] = ("target", patched(stamp(OWN.batches[0], 7, 1, 40), **damage))
    return Judged(made, read_by_kafka(batches, tmp_path_factory.mktemp("kafka")))


every_way = pytest.mark.parametrize("way", WAYS)


def test_kafka_reads_the_sources_themselves(judged: Judged) -> None:
    assert [name for name, read in judged.read.items() if "/" not in name and read.verdict != "ok"] == []


@every_way
def test_a_broker_accepts_each_batch_made_for_it(judged: Judged, way: str) -> None:
    verdicts = {each.name: {read.verdict for read in judged.targets(each)} for each in judged.by(way)}
    assert {name: said for name, said in verdicts.items() if said - {"ok"}} == {}


@every_way
def test_the_target_holds_what_a_consumer_of_the_source_gets(judged: Judged, way: str) -> None:
    wrong = [
        each.name
        for each in judged.by(way)
        if [content for read in judged.targets(each) for _, content in read.records]
        != [content for _, content in judged.wanted(each)]
    ]
    assert wrong == []


@every_way
def test_every_record_remembers_its_source_offset(judged: Judged, way: str) -> None:
    wrong = [
        each.name for each in judged.by(way) if each.upstream_offsets != [offset for offset, _ in judged.wanted(each)]
    ]
    assert wrong == []


def test_records_of_our_own_are_read_as_they_were_meant(judged: Judged) -> None:
    assert judged.targets(OWN) == [Read("ok", [(0, f"{NOW} - 76"), (1, f"{NOW - 5} 6b -"), (2, "-1  ")])]


@pytest.mark.parametrize("name", REFUSED)
def test_kafkas_classes_refuse_a_batch_that_a_broker_refuses(judged: Judged, name: str) -> None:
    assert judged.read[f"refused/{name}"].verdict.startswith("InvalidRecordException")
