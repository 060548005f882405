"""What comparing costs: by librdkafka, as `verify` reads, and by the fast reader, as `verify --follow` does; a process each.

    python -m benchmarks.verify_cost

One partition, two brokers on loopback. The copy has the same batches as its source, or was compressed anew in batches of
another size. Prints a table: records and CPU seconds of the reading process alone, threads of librdkafka included.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.cluster_logs import ClusterLogs
from mirror_connect.verify.clusters import EARLIEST
from mirror_connect.verify.comparer import Comparer
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.peek import ClusterPeek, PeekedLog, ReadingPrice
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.reading import ClusterReader
from mirror_connect.verify.record_side import RecordSide

# (bytes of a value, records)
SIZES: Final = ((1024, 200_000), (100, 1_000_000))
_STATUS: Final = Path("/proc/self/status")
# Batches end by their number of records, so that the same settings make the same batches: of 100 kB or half of it, unpacked.
_SAME: Final = {"compression.type": "lz4", "linger.ms": 5_000, "batch.size": 1 << 20}
_OTHER: Final = {**_SAME, "compression.type": "zstd"}
_BATCH: Final = 100_000

# Of today, lest retention takes them.
NOW: Final = int(time.time() * 1000) - 3_600_000

Properties = Mapping[str, str]


class Cost(NamedTuple):
    """Of comparing one partition with its copy."""

    equal: int
    by_batch: int
    cpu_seconds: float
    seconds: float
    memory_mb: float


def fill(cluster: LocalCluster, topic: str, size: int, count: int, settings: Mapping[str, object]) -> None:
    """The same records at each call: half of a value is random, half repeats itself."""
    cluster.create_topic(topic, 1)
    rng = random.Random(7)
    values = [rng.randbytes(size // 2) + b"x" * (size - size // 2) for _ in range(1000)]
    producer = Producer({**cluster.librdkafka(), **settings, "queue.buffering.max.messages": 100_000})
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, values[number % 1000], b"key %d" % (number % 5000), timestamp=NOW + number // 100
                )
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


async def by_records(source: Properties, target: Properties, topic: str, copy: str, count: int) -> Findings:
    """As `verify` compares."""
    findings = Findings()
    ours = ClusterLogs("source", source, committed=False, rate=Rate(None))
    theirs = ClusterLogs("target", target, committed=True, rate=Rate(None))
    left, right = ours.log(TopicPartition(topic, 0), 0, count), theirs.log(TopicPartition(copy, 0), 0, count)
    sides = RecordSide(left, _damaged), RecordSide(right, _damaged, producers=True)
    await Comparer(*sides, findings, until=count).run()
    await left.close()
    await right.close()
    await ours.close()
    await theirs.close()
    return findings


async def by_batches(source: Properties, target: Properties, topic: str, copy: str, count: int) -> Findings:
    """As `verify --follow --whole` compares, in one go."""
    findings = Findings()
    ours = ClusterReader("source", source, committed=False, rate=Rate(None))
    theirs = ClusterReader("target", target, committed=True, rate=Rate(None))
    for reader, name in ((ours, topic), (theirs, copy)):
        await reader.open([name])
        await reader.offsets({TopicPartition(name, 0): EARLIEST})
    left = PeekedLog(ClusterPeek(ours, TopicPartition(topic, 0), ReadingPrice()), 0)
    right = PeekedLog(ClusterPeek(theirs, TopicPartition(copy, 0), ReadingPrice()), 0)
    sides = BatchSide(left, _damaged), BatchSide(right, _damaged, committed=True)
    await Comparer(*sides, findings, until=count).run()
    await ours.close()
    await theirs.close()
    return findings


def _damaged(offset: int, reason: str) -> None:
    raise AssertionError(f"offset {offset}: {reason}")


def measured(reader: str, places: tuple[Properties, Properties, str, str, int]) -> Cost:
    """In a process of its own, so that neither sees the other's memory."""
    compare = by_records if reader == "librdkafka" else by_batches
    before, began = time.process_time(), time.monotonic()
    findings = asyncio.run(compare(*places))
    assert findings.faults() == 0
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - before
    peak = next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
    return Cost(findings.equal, findings.by_batch, cpu_seconds, seconds, peak / 1024)


def main() -> None:
    """Fills, compares, prints."""
    with LocalCluster("cost-source") as source, LocalCluster("cost-target") as target:
        print("| records | copy | reader | records/CPU s | µs CPU a record | records/s | peak MB | without unpacking |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for size, count in SIZES:
            same, other = ({"batch.num.messages": _BATCH // size // part} for part in (1, 2))
            fill(source, f"s{size}", size, count, {**_SAME, **same})
            for kind, settings in (("same batches", {**_SAME, **same}), ("encoded anew", {**_OTHER, **other})):
                copy = f"t{size}-{kind[:4]}"
                fill(target, copy, size, count, settings)
                for reader in ("librdkafka", "fast"):
                    clusters = source.client_properties(), target.client_properties()
                    arguments = reader, (*clusters, f"s{size}", copy, count)
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        cost = pool.apply(measured, arguments)
                    each = cost.cpu_seconds / cost.equal
                    print(
                        f"| {size} B | {kind} | {reader} | {1 / each:,.0f} | {each * 1e6:.2f} "
                        f"| {cost.equal / cost.seconds:,.0f} | {cost.memory_mb:.0f} | {cost.by_batch:,} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
