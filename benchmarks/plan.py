"""What is measured, with how much data and for how long, and which figures the product aims at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.sides import MM2, MM2_NO_SYNCS, MM2_TUNED

PARTITIONS: Final = 4
# Cases beside the profiles.
OTHERS: Final = (
    "latency",
    "latency-saturated",
    "epochs",
    "memory",
    "startup",
    "dedicated-start",
    "light-connectors",
    "many-connectors",
    "failover",
    "takeover",
    "exactly-once",
    "many-partitions",
    "many-topics",
    "following",
    "scaling",
    "cluster",
    "far",
    "compute",
    "transforms",
)
# Settings of the case exactly-once; the third one is an interval of transactions.
OFF: Final = "off"
POLL: Final = "poll"


def words_of(setting: str) -> str:
    """A setting of the case exactly-once, as results have it, for the reader."""
    boundary, _, interval = setting.partition("-")
    return {OFF: "without exactly-once", POLL: "exactly once, boundary poll"}.get(
        boundary, f"exactly once every {interval} ms"
    )


NONE_CODEC: Final = 0
LZ4_CODEC: Final = 3


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of source topic. `batch_bytes`: of a batch on the wire, compressed; 0: one record a batch.

    `records`: in the source topic, which a fast side copies several times. `least`: how many times the records per CPU
    second of each other side are aimed at; these sides are measured. `append_time`: the source's broker sets the
    timestamps; `config_copied`: and so does the target's, as the link copies that config. `compacted`: the source's broker
    has removed every other record. `marked`: every other record has the header that a Filter looks for. `filtered`: it
    drops these. `encrypted`: TLS and SCRAM on both
    sides. `json`: its records are JSON objects, every other one of another country. `limit`: the target's
    message.max.bytes, if it is not Kafka's default. `brokers`: of each cluster.
    """

    name: str
    label: str
    record_bytes: int
    batch_bytes: int
    codec: int
    records: int
    least: Mapping[str, float] = field(default_factory=dict)
    append_time: bool = False
    config_copied: bool = False
    compacted: bool = False
    filtered: bool = False
    encrypted: bool = False
    json: bool = False
    marked: bool = False
    limit: int = 0
    brokers: int = 1


PROFILES: Final = (
    Profile(
        "1k",
        "1 KiB records in ~100 KB lz4 batches",
        1024,
        100_000,
        LZ4_CODEC,
        4_000_000,
        {MM2: 20.0, MM2_NO_SYNCS: 20.0, MM2_TUNED: 8.0},
    ),
    Profile(
        "100b",
        "100 B records in ~100 KB lz4 batches",
        100,
        100_000,
        LZ4_CODEC,
        44_000_000,
        {MM2: 40.0, MM2_NO_SYNCS: 40.0, MM2_TUNED: 8.0},
    ),
    Profile("16k", "1 KiB records in ~16 KB lz4 batches", 1024, 16_000, LZ4_CODEC, 4_000_000, {MM2: 5.0}),
    Profile(
        "single",
        "100 B records, one a batch, uncompressed",
        100,
        0,
        NONE_CODEC,
        3_000_000,
        {MM2: 3.0, MM2_NO_SYNCS: 3.0},
    ),
    Profile(
        "append-time",
        "1 KiB records in ~100 KB lz4 batches, LogAppendTime",
        1024,
        100_000,
        LZ4_CODEC,
        2_000_000,
        {MM2: 5.0},
        append_time=True,
    ),
    Profile(
        "append-time-both",
        "1 KiB records in ~100 KB lz4 batches, LogAppendTime on both sides",
        1024,
        100_000,
        LZ4_CODEC,
        4_000_000,
        {MM2: 5.0},
        append_time=True,
        config_copied=True,
    ),
    Profile(
        "gaps",
        "1 KiB records in ~100 KB lz4 batches, half of them compacted away",
        1024,
        100_000,
        LZ4_CODEC,
        1_500_000,
        {MM2: 5.0},
        compacted=True,
    ),
    Profile(
        "tls",
        "1 KiB records in ~100 KB lz4 batches, TLS and SCRAM on both sides",
        1024,
        100_000,
        LZ4_CODEC,
        4_000_000,
        {MM2: 10.0},
        encrypted=True,
    ),
    Profile(
        "small-limit",
        "1 KiB records in ~100 KB lz4 batches, to a target that takes 50 KB",
        1024,
        100_000,
        LZ4_CODEC,
        2_000_000,
        limit=50_000,
    ),
    Profile(
        "three-brokers",
        "1 KiB records in ~100 KB lz4 batches, three brokers on each side",
        1024,
        100_000,
        LZ4_CODEC,
        4_000_000,
        brokers=3,
    ),
    Profile(
        "filter",
        "1 KiB records in ~100 KB lz4 batches, of which a Filter drops every other one",
        1024,
        100_000,
        LZ4_CODEC,
        4_000_000,
        marked=True,
        filtered=True,
    ),
    # Not part of a full run: the same with larger records, for looking at where time goes.
    Profile("single-1k", "1 KiB records, one a batch, uncompressed", 1024, 0, NONE_CODEC, 2_000_000),
)
# Of the case compute: records that a statement reads.
COMPUTE: Final = Profile(
    "compute", "190 B JSON records in ~100 KB lz4 batches", 190, 100_000, LZ4_CODEC, 3_000_000, json=True
)
# Of the case transforms: the source's broker sets the timestamps, so each record is written again.
TRANSFORMS: Final = Profile(
    "transforms",
    "1 KiB records in ~100 KB lz4 batches, LogAppendTime, every other one with a header",
    1024,
    100_000,
    LZ4_CODEC,
    2_000_000,
    append_time=True,
    marked=True,
)
FULL_PROFILES: Final = (
    "1k",
    "100b",
    "16k",
    "single",
    "append-time",
    "append-time-both",
    "gaps",
    "tls",
    "small-limit",
    "three-brokers",
    "filter",
)


@dataclass(frozen=True, slots=True)
class Durations:
    """All in seconds, but for counts."""

    warm_up: float = 30.0
    # Rounds in front of those that count: what the JIT compiler of a JVM does in its first full turns.
    warm_rounds: int = 1
    # Before a later round: a side has waited meanwhile.
    warm_again: float = 5.0
    # How long each side copies in all rounds together: the topic again and again, each time to another remote topic.
    copy_java: float = 62.0
    copy_product: float = 20.0
    rounds: int = 5
    # Of each copying, what does not count: its start.
    settle: float = 1.0
    # What a figure needs to count: the slower side copied at least, the faster sides copied at least.
    slower: float = 60.0
    faster: float = 10.0
    # Of all rounds together.
    latency: float = 30.0
    latency_rounds: int = 3
    idle: float = 20.0
    idle_rounds: int = 3
    # Until light tasks share a process, and Spark has ended those that nobody uses any more: a minute each.
    light: float = 180.0
    throttled: float = 75.0
    throttled_bytes: int = 1 << 30
    # Beside one of each side that does not count.
    starts: int = 5
    # How long they are asked about after each start.
    many_connectors_after: float = 6.0
    # Of each partition.
    failover_records: int = 1_350
    # Of each kind, of each side.
    takeovers: int = 3
    # With and without exactly-once: each setting copies for so long in all rounds together.
    transactions_warm_up: float = 15.0
    transactions_java: float = 32.0
    transactions_product: float = 20.0
    transactions_rounds: int = 4
    # At each rate, of each setting.
    transactions_latency: float = 16.0
    transactions_latency_rounds: int = 2
    # All at once, and as many as MirrorMaker 2 can make: it asks for all remote topics in one request, and a controller
    # writes at most 10,000 records for one. A topic is one, each partition, and each config (ReplicationControlManager,
    # QuorumController.MAX_RECORDS_PER_USER_OP of Kafka 4.3.1): 5 for each of these.
    many_topics: tuple[int, ...] = (2_000, 1_950)
    # How long latency is measured beside the first refresh.
    many_first: float = 45.0
    # Longer than Kafka's interval of checkpoints.
    many_minute: float = 75.0
    following: float = 60.0
    # At each distance, of each side.
    far: float = 12.0
    data_share: float = 1.0

    def copying(self, seconds: float, warm_up: float) -> Durations:
        """The same for a case whose own rounds copy for so long each."""
        return replace(self, copy_product=seconds, rounds=1, warm_up=warm_up)


FULL: Final = Durations()
QUICK: Final = Durations(
    warm_up=4.0,
    warm_rounds=0,
    warm_again=1.0,
    copy_java=10.0,
    copy_product=5.0,
    rounds=2,
    settle=0.0,
    slower=0.0,
    faster=0.0,
    latency=4.0,
    latency_rounds=2,
    idle=5.0,
    idle_rounds=1,
    light=5.0,
    throttled=20.0,
    throttled_bytes=200 << 20,
    starts=2,
    many_connectors_after=3.0,
    failover_records=300,
    takeovers=1,
    transactions_warm_up=4.0,
    transactions_java=6.0,
    transactions_product=6.0,
    transactions_rounds=2,
    transactions_latency=4.0,
    transactions_latency_rounds=1,
    many_topics=(200,),
    many_first=15.0,
    many_minute=15.0,
    following=10.0,
    far=8.0,
    data_share=0.25,
)

RATES: Final = (100, 2_000)
LATENCY_RECORD_BYTES: Final = 200
THROTTLED_PARTITIONS: Final = 16
THROTTLE_BYTES_PER_SECOND: Final = 5_000_000
MANY_CONNECTORS: Final = 200
FAILOVER_RATE: Final = 400.0
FAILOVER_SEED: Final = 4
MANY_PARTITIONS: Final = 3
MANY_GROUPS: Final = 500
MANY_RATE: Final = 1_000

# With transactions, at an interval of a second or more: of what is copied without them.
AIM_OF_PLAIN: Final = 0.8
# How much later than at a consumer of the source, and how many times that of MirrorMaker 2 in the same run.
AIM_OVER_MS: Final = {"p50": 2.0, "p99": 10.0, "p999": 100.0}
AIM_OVER_RATIO: Final = {"p50": 1 / 2, "p99": 1 / 3}
# The same while many topics are made and looked at.
AIM_BESIDE_MANY_MS: Final = {"p50": 5.0, "p99": 25.0}
AIM_IDLE_MB: Final = 560.0
AIM_THROTTLED_MB: Final = 300.0
AIM_REST_S: Final = 2.0
AIM_PUT_S: Final = 2.0
AIM_ALL_CONNECTORS_S: Final = 2.0
AIM_REFRESH_S: Final = 30.0
AIM_CHECKPOINTS_S: Final = 10.0
# Records of 190 B JSON per CPU second, by statement.
AIM_STATEMENT_RECORDS: Final = {"filter": 100_000, "hash and rewrite": 80_000}
# How much later than without a statement, at the 99th percentile: once it is warm, and in its first seconds.
AIM_STATEMENT_MS: Final = 25.0
AIM_FIRST_SECONDS_MS: Final = 100.0
# Times what re-encoding costs without a transformation.
AIM_TRANSFORMS: Final = 1.5
AIM_WORKER_MB: Final = 400.0
# Times the cost of 16 partitions and one task.
AIM_SCALING: Final = 1.3
# Times the cost on a local master.
AIM_PLACEMENT: Final = 1.1
