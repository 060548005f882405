"""Identity once more, with kill -9 in the middle: Spark's tree, then a task's process, then the worker, in one copy.

The copy may repeat what came in the second before each kill, by going back, and is the source in everything else. Who says
so is librdkafka, DumpLogSegments and the segment files, as without kills.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.identity_topics import ALL, KEEP, PREFIX, TEXTS, TX, Written
from tests.e2e.kills import Survived, ended_by, kill, slow
from tests.e2e.product import DAEMON, DRIVER, JVM, PATIENCE_S, TASK, WORKER, Product, mirror_config
from tests.e2e.progress import Partition, Progress
from tests.e2e.reading import batches, data_batches, dumped, records
from tests.e2e.rewinds import Rewind, rewinds
from tests.seeds import chance
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

NAME: Final = "identity-kills"
ALIAS: Final = "K"
# Spark's tree is killed from its root down: nothing can restart a part of it.
KILLS: Final = ((DRIVER, JVM, DAEMON, TASK), (TASK,), (WORKER,))
# Unslowed, all would be copied before the first kill. The largest batch has to pass within a quota's two seconds.
BYTES_PER_SECOND: Final = 700_000
# How long records flow before a kill: positions are committed twice a second.
FLOWS_S: Final = (1.2, 1.8)
SECOND: Final = 1.0
# What a killed process had sent already a busy broker may write after its end.
IN_FLIGHT_S: Final = 2.0

Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


@dataclass(frozen=True)
class Compared(Survived):
    """`wanted`: what each partition of the source holds."""

    wanted: Mapping[Partition, list[Row]]


@pytest.fixture(scope="module")
def survived(written: Written, target_cluster: LocalCluster) -> Compared:
    """Everything copied by a worker that was killed on its way, and is gone."""
    source, target = written.source, target_cluster
    for topic, partitions in ALL.items():
        target.create_topic(f"{ALIAS}.{topic}", partitions, KEEP)
    dice = chance(NAME)
    slow(source, ALIAS, NAME, BYTES_PER_SECOND)
    config = mirror_config(
        source,
        target,
        f"{PREFIX}-.*",
        source_cluster_alias=ALIAS,
        consumer_isolation_level="read_committed",
        # One answer must not use up the quota.
        consumer_fetch_max_bytes="65536",
        consumer_max_partition_fetch_bytes="65536",
    )
    properties = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "2000"}
    copies = [(f"{ALIAS}.{topic}", partition) for topic, count in ALL.items() for partition in range(count)]
    with Product(target, group=NAME, properties=properties) as product, Progress(target, copies) as progress:
        product.put(NAME, config)
        wanted = {
            (topic, partition): rows(source, topic, partition)
            for topic, count in ALL.items()
            for partition in range(count)
        }
        whole = sum(map(len, wanted.values()))
        kills = [kill(product, progress, parts, dice.uniform(*FLOWS_S)) for parts in KILLS]
        slow(source, ALIAS, NAME, None)

        def complete() -> bool:
            product.check_alive()
            ends = progress.ends
            return all(
                ends[f"{ALIAS}.{topic}", partition] >= len(want) for (topic, partition), want in wanted.items()
            ) and progress.still(2.0)

        wait_for(complete, f"all {whole} records have come", PATIENCE_S, arrived=lambda: progress.total)
    return Compared(source, target, progress, kills, wanted)


def rows(cluster: LocalCluster, topic: str, partition: int) -> list[Row]:
    """What a record has to keep; only what is committed."""
    found = records(cluster, topic, partition, isolation="read_committed")
    return [(each.key, each.value, each.headers, each.timestamp) for each in found]


def starts(cluster: LocalCluster, topic: str, partition: int) -> set[int]:
    return {batch.base_offset for batch in batches(cluster, topic, partition)}


@pytest.fixture(scope="module")
def jumps(survived: Compared) -> dict[Partition, list[Rewind]]:
    """The jumps back of each partition of the source; AssertionError if anything else tells the copy from its source."""
    found = {}
    for (topic, partition), want in survived.wanted.items():
        copy = f"{ALIAS}.{topic}", partition
        try:
            found[topic, partition] = rewinds(want, rows(survived.target, *copy), starts(survived.target, *copy))
        except AssertionError as error:
            raise AssertionError(f"{topic}-{partition}: {error}") from None
    return found


def test_each_kill_came_while_records_were_copied(survived: Compared) -> None:
    whole = sum(map(len, survived.wanted.values()))
    come = [sum(each.come.values()) for each in survived.kills]
    assert come == sorted(set(come))
    assert 0 < come[0] < come[-1] < whole
    for each in survived.kills:
        assert any(0 < each.come[f"{ALIAS}.{topic}", p] < len(want) for (topic, p), want in survived.wanted.items())


def test_every_record_is_there_in_order_and_comes_again_only_by_a_jump_back(
    jumps: dict[Partition, list[Rewind]],
) -> None:
    # That nothing else differs was found when the jumps were looked for.
    assert jumps.keys() == {(topic, partition) for topic, count in ALL.items() for partition in range(count)}
    assert max(map(len, jumps.values())) <= len(KILLS)


def test_what_was_there_a_second_before_a_kill_is_not_repeated(
    survived: Compared, jumps: dict[Partition, list[Rewind]], capsys: pytest.CaptureFixture[str]
) -> None:
    ages, repeated = [0.0] * len(survived.kills), [0] * len(survived.kills)
    writer_ended_by = ended_by(survived, [(f"{ALIAS}.{topic}", partition) for topic, partition in jumps])
    for (topic, partition), each in jumps.items():
        copy = f"{ALIAS}.{topic}", partition
        for jump in each:
            # The writer of the last record before the jump was killed: the next one went back.
            first = jump.at - jump.repeated
            cause = writer_ended_by(copy, jump.at - 1)
            last = survived.progress.missed(copy, jump.at - 1)
            assert last <= survived.kills[cause].when + IN_FLIGHT_S, (
                f"{topic}-{partition} goes back without a kill: {jump}"
            )
            ages[cause] = max(ages[cause], survived.kills[cause].when - survived.progress.written(copy, first))
            repeated[cause] += jump.repeated
    with capsys.disabled():
        told = [f"{count}, {age:.1f} s old at most" for count, age in zip(repeated, ages, strict=True)]
        print(f" [repeated after each kill: {'; '.join(told)}]", end="")
    # A broker that answers nobody, on a machine that does something else, takes no commits either.
    stalls = [max(0.0, survived.progress.stalled(kill.when, 2 * SECOND)) for kill in survived.kills]
    assert [age for age, stall in zip(ages, stalls, strict=True) if age > SECOND + stall] == [], (ages, stalls)


def test_no_record_of_an_aborted_transaction_is_there(survived: Compared) -> None:
    values = [row[1] or b"" for p in range(ALL[TX]) for row in rows(survived.target, f"{ALIAS}.{TX}", p)]
    assert {value.split()[-1] for value in values} == {b"True"}


@pytest.mark.parametrize("topic", TEXTS)
def test_batches_copied_as_they_are_keep_their_bytes_through_kills(survived: Compared, topic: str) -> None:
    for partition in range(TEXTS[topic]):
        was = data_batches(survived.source, topic, partition)
        rewinds(was, data_batches(survived.target, f"{ALIAS}.{topic}", partition))


# What it reads is compared record by record above; without kills it reads a copy in each run (test_identity.py).
@pytest.mark.long
def test_kafkas_own_tool_reads_the_source_with_jumps_back(
    survived: Compared, jumps: dict[Partition, list[Rewind]]
) -> None:
    partitions = [(topic, partition) for topic, count in TEXTS.items() for partition in range(count)]
    was = dumped(survived.source, partitions)
    came = dumped(survived.target, [(f"{ALIAS}.{topic}", partition) for topic, partition in partitions])
    for topic, partition in partitions:
        old, new = was[topic, partition], came[f"{ALIAS}.{topic}", partition]
        assert new.invalid == [], f"{topic}-{partition}"
        begins = {0, *accumulate(int(count) for count, _, _ in new.batches)}
        found = rewinds(
            [without_offset(line) for line in old.records], [without_offset(line) for line in new.records], begins
        )
        assert found == jumps[topic, partition], f"{topic}-{partition}"


def without_offset(line: str) -> str:
    """A record as DumpLogSegments prints it, but for the offset, which a repetition moves."""
    return line.partition(" ")[2].partition(" ")[2] if line.startswith("offset: ") else line
