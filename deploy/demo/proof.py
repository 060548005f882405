"""The demo's claims about the copy, computed from both whole topics, which librdkafka reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from deploy.local import LocalCluster

SILENCE_S: Final = 60.0


class Record(NamedTuple):
    """A record without its offset. `timestamp`: its type (1: the producer's clock, 2: the broker's) and milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]

    @classmethod
    def of(cls, message: Message) -> Record:
        """The record of a message from librdkafka."""
        kind, milliseconds = message.timestamp()
        return cls(message.key(), message.value(), tuple(message.headers() or ()), (kind, milliseconds))


Topic = Mapping[int, Sequence[Record]]
"""Partition → its records in order."""


class Claim(NamedTuple):
    """A sentence with numbers about what was compared, and whether it is true."""

    text: str
    true: bool


def compare(source: Topic, target: Topic) -> list[Claim]:
    """One claim for each property that must be the same. Records are matched by partition and index in it."""
    there, here = _sizes(source), _sizes(target)
    total = sum(there)
    placed = [(p, record) for p, records in source.items() for record in records]
    found = [(p, record) for p, records in target.items() for record in records]
    # As multisets: a changed order is no loss.
    missing = sum((Counter(placed) - Counter(found)).values())
    foreign = sum((Counter(found) - Counter(placed)).values())
    pairs = list(_pairs(source, target))
    return [
        Claim(
            f"count: kafka-1 has {_sum(there)} = {total:,} records, kafka-2 {_sum(here)} = {sum(here):,}",
            there == here and total > 0,
        ),
        Claim(
            f"loss: {missing:,} of {total:,} missing, {foreign:,} twice or not from the source",
            not missing and not foreign and total > 0,
        ),
        _same("order: {} of {} stand at the same place of the same partition", pairs, lambda record: record),
        _same("keys: {} of {} the same", pairs, lambda record: record.key),
        _same(
            f"values: {{}} of {{}} the same, {sum(len(r.value or b'') for _, r in placed):,} bytes, "
            f"{sum(r.value is None for _, r in placed):,} of them null",
            pairs,
            lambda record: record.value,
        ),
        _same("headers: {} of {} the same", pairs, lambda record: record.headers),
        _same("timestamps: {} of {} the same", pairs, lambda record: record.timestamp),
    ]


def went_on(group: str, source: Topic, before: Topic, after: Topic) -> list[Claim]:
    """Claims that a group read each record once: on the source before it moved, or on the target afterwards.

    They prove nothing unless every partition has records before and after the move.
    """
    moves = [(source[p], list(before.get(p, ())), list(after.get(p, ()))) for p in sorted(source)]
    total = sum(_sizes(source))
    in_the_middle = total > 0 and all(first and then for _, first, then in moves)
    next_ones = sum(bool(then) and then[:1] == list(whole[len(first) :][:1]) for whole, first, then in moves)
    # As multisets by partition: a duplicate in one partition doesn't hide a loss in another.
    wanted = Counter((p, record) for p, records in source.items() for record in records)
    read = Counter((p, record) for side in (before, after) for p, records in side.items() for record in records)
    skipped, twice = sum((wanted - read).values()), sum((read - wanted).values())
    in_order = all(first + then == list(whole) for whole, first, then in moves)
    return [
        Claim(
            f"group: {group} read {_sum(_sizes(before))} records on kafka-1; on kafka-2 it continues with the next one "
            f"in {next_ones} of {len(moves)} partitions",
            in_the_middle and next_ones == len(moves),
        ),
        Claim(
            f"failover: of {total:,} records {skipped:,} skipped, {twice:,} read twice or not from the source, "
            f"{'in their order' if in_order else 'not in their order'}",
            in_the_middle and in_order and not skipped and not twice,
        ),
    ]


def read_whole(cluster: LocalCluster, user: str, topic: str) -> dict[int, list[Record]]:
    """All records up to the present end of each partition. RuntimeError if a broker stays silent."""
    consumer = Consumer(
        {
            **cluster.librdkafka(user),
            "group.id": "demo-proof",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "allow.auto.create.topics": False,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=SILENCE_S).topics[topic].partitions)
        first = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), SILENCE_S)[0] for p in partitions}
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in first.items()])
        found: dict[int, list[Record]] = {partition: [] for partition in partitions}
        open_partitions = set(partitions)
        while open_partitions:
            message = consumer.poll(SILENCE_S)
            if message is None:
                raise RuntimeError(f"{cluster.name} sent no record of {topic} for {SILENCE_S:g} s")
            if error := message.error():
                if error.code() != KafkaError._PARTITION_EOF:
                    raise RuntimeError(f"reading {topic} from {cluster.name}: {error.str()}")
                open_partitions.discard(message.partition())
                continue
            found[message.partition()].append(Record.of(message))
        return found
    finally:
        consumer.close()


def end_offsets(consumer: Consumer, topic: str) -> dict[int, int]:
    """Partition → end offset, asked of the brokers; empty while there is no such topic."""
    known = consumer.list_topics(topic, timeout=SILENCE_S).topics[topic]
    if known.error is not None:
        return {}
    return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), SILENCE_S)[1] for p in known.partitions}


def _same(text: str, pairs: list[_Pair], part: Callable[[Record], object]) -> Claim:
    """`text` has two placeholders: how many are the same, and of how many."""
    different = [
        (partition, place)
        for partition, place, one, other in pairs
        if one is None or other is None or part(one) != part(other)
    ]
    sentence = text.format(f"{len(pairs) - len(different):,}", f"{len(pairs):,}")
    if different:
        sentence += "; the first that differs: partition {}, record {}".format(*different[0])
    return Claim(sentence, bool(pairs) and not different)


_Pair = tuple[int, int, Record | None, Record | None]


def _pairs(source: Topic, target: Topic) -> Iterator[_Pair]:
    for partition in sorted({*source, *target}):
        both = zip_longest(source.get(partition, ()), target.get(partition, ()))
        for place, (one, other) in enumerate(both):
            yield partition, place, one, other


def _sizes(topic: Topic) -> list[int]:
    return [len(topic[partition]) for partition in sorted(topic)]


def _sum(sizes: list[int]) -> str:
    return " + ".join(f"{size:,}" for size in sizes) or "0"
