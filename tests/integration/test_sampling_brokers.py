"""`mirror-connect verify --follow` behind links between two real clusters: what is wrong is named, what is not is not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors import partitions
from mirror_connect.connectors.task_protocol import INTERVAL
from mirror_connect.verify import sampling
from mirror_connect.verify.findings import Fault
from mirror_connect.verify.link import Link, Positions, link_of
from mirror_connect.verify.sampling import SamplingOptions, SamplingVerifier
from mirror_connect.verify.sampling_report import SamplingReport, SamplingWatcher
from tests.brokers import delete_before, hold_back
from tests.fakes.worker_rest import worker_that_answers
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, fresh_topic, produce, running, spec_for

pytestmark = pytest.mark.brokers
Records = list[dict[str, Any]]
# Not so old that a broker deletes what it has just been given.
NOW = int(time.time() * 1000) - 3_600_000
# Everything that an idle machine allows, and more: what is tested here is what is found, not the share.
WHOLE = SamplingOptions(cpu_share=None)


def some(count: int, first: int = 0, *, partition: int = 0, size: int = 20) -> Records:
    return [
        {
            "key": b"key %d" % number,
            "value": b"value %d " % number * size,
            "timestamp": NOW + number,
            "partition": partition,
        }
        for number in range(first, first + count)
    ]


def config_of(source: LocalCluster, target: LocalCluster, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "topics": topic,
        **{f"source.cluster.{name}": value for name, value in source.client_properties().items()},
        **{f"target.cluster.{name}": value for name, value in target.client_properties().items()},
        **more,
    }


class Followed(SamplingWatcher):
    """A link that is followed in this loop; the test says how far it has come."""

    def __init__(self, link: Link, options: SamplingOptions = WHOLE) -> None:
        self.positions: dict[tuple[str, int], int] = {}
        self.faults: list[tuple[int, Fault]] = []
        self.notices: list[str] = []
        # The CPU of this process is that of the tests.
        self.follower = SamplingVerifier(link, self._tell, options, self, own=lambda: 0.0, doubt_s=0.1)
        self.task: asyncio.Future[None] | None = None
        self.told = 0

    async def _tell(self) -> Positions:
        self.told += 1
        return {partitions.TopicPartition(*key): at for key, at in self.positions.items()}

    @property
    def report(self) -> SamplingReport:
        return self.follower.report

    def fault(self, key: tuple[str, int], fault: Fault) -> None:
        self.faults.append((key[1], fault))

    def notice(self, line: str) -> None:
        self.notices.append(line)

    async def until(self, condition: Callable[[], bool], seconds: float = 270.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                assert self.task is not None
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.02)

    async def verified(self, records: int) -> None:
        """Waits until so many offsets are settled one way or another."""
        names = ("compared", "counted", "passed", "gone")
        await self.until(lambda: sum(self.report.total(name) for name in names) >= records)


@contextlib.asynccontextmanager
async def following(
    source: LocalCluster,
    target: LocalCluster,
    topic: str,
    *,
    options: SamplingOptions = WHOLE,
    positions: Mapping[tuple[str, int], int] = MappingProxyType({}),
    **config: str,
) -> AsyncIterator[Followed]:
    followed = Followed(link_of("m", config_of(source, target, topic, **config)), options)
    followed.positions = dict(positions)
    followed.task = asyncio.ensure_future(followed.follower.run())
    try:
        await followed.until(lambda: followed.told > 1)
        yield followed
    finally:
        followed.task.cancel()
        await asyncio.gather(followed.task, return_exceptions=True)


def both(source: LocalCluster, target: LocalCluster, partitions: int = 1) -> str:
    topic = fresh_topic("follow")
    source.create_topic(topic, partitions)
    target.create_topic(f"A.{topic}", partitions)
    return topic


async def test_what_a_running_task_copies_is_compared_whole_and_equal(
    one_broker: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = both(one_broker, target_cluster, 2)
    async with (
        following(one_broker, target_cluster, topic) as followed,
        running(spec_for(one_broker, target_cluster, {topic: 2})) as task,
    ):
        for first, linger in ((0, 20), (1000, 0), (2000, 20)):
            for partition in (0, 1):
                records = some(1000, first, partition=partition)
                produce(one_broker, topic, records, **{"compression.type": "lz4", "linger.ms": linger})
            await task.copied(2 * (first + 1000))
            followed.positions = {(topic, 0): first + 999, (topic, 1): first + 999}
        await followed.verified(6000)
    report = followed.report
    assert (report.total("compared"), report.faults, report.outcome) == (6000, 0, 0)
    assert sum(each.tally.findings.equal for _, each in report.partitions.values()) == 6000


FAULTS: dict[int, tuple[str, Callable[[Records], Records]]] = {
    0: ("missing", lambda records: records[:70] + records[71:]),
    1: ("doubled", lambda records: records[:71] + records[70:]),
    2: ("reordered", lambda records: [*records[:70], *records[71:80], records[70], *records[80:]]),
    3: ("changed", lambda records: [*records[:70], {**records[70], "value": b"another"}, *records[71:]]),
    4: ("foreign", lambda records: [*records[:70], {**records[70], "value": b"stranger"}, *records[70:]]),
}


async def test_each_kind_of_fault_that_comes_behind_a_running_link_is_named(
    one_broker: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = both(one_broker, target_cluster, len(FAULTS))
    idempotent = {"enable.idempotence": True}
    async with following(one_broker, target_cluster, topic) as followed:
        for first in (0, 200):
            for partition, (_, spoil) in FAULTS.items():
                records = some(200, first, partition=partition)
                produce(one_broker, topic, records)
                produce(target_cluster, f"A.{topic}", spoil(records) if first else records, **idempotent)
            followed.positions = {(topic, partition): first + 199 for partition in FAULTS}
            await followed.verified((first + 200) * len(FAULTS))
        await followed.until(lambda: len(followed.faults) >= len(FAULTS))
    found = {partition: (str(fault.kind), fault.source) for partition, fault in followed.faults}
    places = {partition: (kind, None if kind == "foreign" else (270, 270)) for partition, (kind, _) in FAULTS.items()}
    assert found == places
    assert (followed.report.faults, followed.report.outcome) == (len(FAULTS), 1)


async def test_what_a_task_copies_in_transactions_is_compared_whole_and_equal(
    one_broker: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic, offsets = both(one_broker, target_cluster, 2), fresh_topic("offsets")
    target_cluster.create_topic(offsets, OFFSETS_PARTITIONS)
    spec = replace(
        spec_for(one_broker, target_cluster, {topic: 2}),
        exactly_once=True,
        transaction_boundary=INTERVAL,
        transaction_interval_ms=20,
        offsets_topic=offsets,
    )
    async with following(one_broker, target_cluster, topic) as followed, running(spec, target_cluster) as task:
        for first in range(0, 3000, 500):
            for partition in (0, 1):
                produce(one_broker, topic, some(500, first, partition=partition), **{"batch.num.messages": 50})
            await task.copied(2 * (first + 500))
            followed.positions = {(topic, 0): first + 499, (topic, 1): first + 499}
        await followed.verified(6000)
    report = followed.report
    assert (report.total("compared"), report.faults, report.outcome) == (6000, 0, 0)
    assert report.total("unaccounted") == 0


def in_transactions(cluster: LocalCluster, topic: str, records: Records) -> None:
    """As a copier with exactly-once: twenty records in each transaction. Each third one is aborted first."""
    name = f"copier-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    for number, first in enumerate(range(0, len(records), 20)):
        for committed in (False, True) if number % 3 == 0 else (True,):
            producer.begin_transaction()
            for record in records[first : first + 20]:
                producer.produce(topic, **record)
            assert producer.flush(60) == 0
            if committed:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)


async def test_among_transactions_each_kind_of_fault_is_named(
    one_broker: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = both(one_broker, target_cluster, len(FAULTS))
    async with following(one_broker, target_cluster, topic) as followed:
        for first in (0, 200):
            for partition, (_, spoil) in FAULTS.items():
                records = some(200, first, partition=partition)
                produce(one_broker, topic, records)
                in_transactions(target_cluster, f"A.{topic}", spoil(records) if first else records)
            followed.positions = {(topic, partition): first + 199 for partition in FAULTS}
            await followed.verified((first + 200) * len(FAULTS))
        await followed.until(lambda: len(followed.faults) >= len(FAULTS))
    found = {partition: (str(fault.kind), fault.source) for partition, fault in followed.faults}
    places = {partition: (kind, None if kind == "foreign" else (270, 270)) for partition, (kind, _) in FAULTS.items()}
    assert found == places
    assert (followed.report.faults, followed.report.outcome) == (len(FAULTS), 1)


async def test_a_record_that_is_missing_between_two_samples_is_found_by_counting(
    one_broker: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = both(one_broker, target_cluster)
    # Two megabytes are looked at of forty.
    options = SamplingOptions(cpu_share=1.0, seed=3)
    async with following(one_broker, target_cluster, topic, options=options) as followed:
        for first in (0, 20_000, 40_000):
            records = some(20_000, first, size=70)
            produce(one_broker, topic, records)
            missing = records[:10_000] + records[10_001:] if first == 20_000 else records
            produce(target_cluster, f"A.{topic}", missing)
            followed.positions = {(topic, 0): first + 19_999}
            seen = followed.report.total("compared")
            await followed.until(lambda seen=seen: followed.report.total("compared") > seen)  # type: ignore[misc]
        await followed.until(lambda: bool(followed.faults))
    ((_, fault),) = followed.faults
    assert (str(fault.kind), fault.source, fault.count) == ("missing", (30_000, 30_000), 1)
    assert 0 < followed.report.total("compared") < 60_000


@pytest.mark.parametrize("copied", [0, 120])
async def test_a_record_of_somebody_elses_that_comes_first_to_a_link_at_rest_is_named(
    one_broker: LocalCluster, target_cluster: LocalCluster, copied: int
) -> None:
    topic = both(one_broker, target_cluster)
    for cluster, name in ((one_broker, topic), (target_cluster, f"A.{topic}")):
        produce(cluster, name, some(copied))
    before = {(topic, 0): copied - 1} if copied else {}
    async with following(one_broker, target_cluster, topic, positions=before) as followed:
        produce(target_cluster, f"A.{topic}", [{**some(1)[0], "value": b"stranger"}])
        for cluster, name in ((one_broker, topic), (target_cluster, f"A.{topic}")):
            produce(cluster, name, some(20, copied))
        followed.positions = {(topic, 0): copied + 19}
        await followed.verified(20)
    ((_, fault),) = followed.faults
    assert (str(fault.kind), fault.target, followed.report.outcome) == ("foreign", (copied, copied), 1)


async def test_what_retention_took_first_is_no_fault(one_broker: LocalCluster, target_cluster: LocalCluster) -> None:
    topic = both(one_broker, target_cluster)
    async with following(one_broker, target_cluster, topic) as followed:
        for first in (0, 500):
            produce(one_broker, topic, some(500, first))
            produce(target_cluster, f"A.{topic}", some(500, first))
            if first:
                delete_before(one_broker, topic, 600)
                delete_before(target_cluster, f"A.{topic}", 700)
            followed.positions = {(topic, 0): first + 499}
            await followed.verified(first + 500)
    report = followed.report
    assert (report.faults, report.outcome, report.total("gone")) == (0, 0, 200)
    assert report.total("compared") == 800


@pytest.mark.long
async def test_a_restarted_broker_is_waited_for(
    one_broker: LocalCluster, own_broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_PATIENCE_S", "_REST_S"):
        monkeypatch.setattr(sampling, name, 1.0)
    topic = both(one_broker, own_broker)
    async with following(one_broker, own_broker, topic) as followed:
        produce(one_broker, topic, some(600))
        produce(own_broker, f"A.{topic}", some(600))
        followed.positions = {(topic, 0): 299}
        await followed.verified(300)
        await asyncio.to_thread(own_broker.kill)
        followed.positions = {(topic, 0): 599}
        await followed.until(lambda: bool(followed.report.problems))
        await asyncio.to_thread(own_broker.start)
        await followed.verified(600)
    assert (followed.report.total("compared"), followed.report.faults) == (600, 0)


async def test_a_broker_that_throttles_is_asked_again_later(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = both(source_cluster, target_cluster)
    quota = "consumer_byte_rate"
    own_name: dict[str, Any] = {"source.consumer.client.id": topic}
    async with following(source_cluster, target_cluster, topic, **own_name) as followed:
        for cluster, name in ((source_cluster, topic), (target_cluster, f"A.{topic}")):
            produce(cluster, name, some(2000, size=100))
        await asyncio.to_thread(hold_back, source_cluster, topic, quota, 500_000)
        followed.positions = {(topic, 0): 1999}
        await followed.verified(2000)
        throttled = followed.follower._source._cluster.totals
        await asyncio.to_thread(hold_back, source_cluster, topic, quota, None)
    assert sum(each.throttled_ms for each in throttled.all()) > 0, "the quota held nothing back"
    report = followed.report
    assert (report.total("compared"), report.faults, report.outcome) == (2000, 0, 0)


async def test_a_source_topic_made_again_is_verified_from_its_beginning(
    one_broker: LocalCluster, target_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_TOPICS_EVERY_S", 0.2)
    topic = both(one_broker, target_cluster)
    async with following(one_broker, target_cluster, topic) as followed:
        produce(one_broker, topic, some(300))
        produce(target_cluster, f"A.{topic}", some(300))
        followed.positions = {(topic, 0): 299}
        await followed.verified(300)
        one_broker.delete_topic(topic)
        one_broker.create_topic(topic)
        for first in (5000, 5100):
            produce(one_broker, topic, some(100, first))
            produce(target_cluster, f"A.{topic}", some(100, first))
            followed.positions = {(topic, 0): first - 4901}
            await followed.until(lambda: any("created again" in line for line in followed.notices))
        await followed.verified(500)
    assert (followed.report.total("compared"), followed.report.faults) == (500, 0)


def test_ctrl_c_ends_it_with_what_was_found(one_broker: LocalCluster, target_cluster: LocalCluster) -> None:
    topic = both(one_broker, target_cluster)
    produce(one_broker, topic, some(400))
    produce(target_cluster, f"A.{topic}", [*some(250), {**some(1, 250)[0], "value": b"another"}, *some(149, 251)])
    offset = {"offset": 199}
    answers = {
        "/connectors/m/config": config_of(one_broker, target_cluster, topic),
        "/connectors/m/offsets": {
            "offsets": [{"partition": {"cluster": "A", "partition": 0, "topic": topic}, "offset": offset}]
        },
    }
    with worker_that_answers(answers) as worker, command("m", "--worker", worker.url, "--whole", "--json") as process:
        assert process.stdout is not None
        worker.until_asked_for("/connectors/m/offsets", times=3)
        offset["offset"] = 399
        told = [json.loads(process.stdout.readline())]
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=60)
    told += [json.loads(line) for line in rest.splitlines()]
    assert (process.returncode, complaints) == (1, "")
    assert [line["event"] for line in told] == ["fault", "end"]
    assert (told[0]["kind"], told[0]["source_offsets"], told[0]["target_offsets"]) == (
        "changed",
        [250, 250],
        [250, 250],
    )
    assert (told[1]["outcome"], told[1]["copied"], told[1]["compared"], told[1]["faults"]) == ("different", 200, 200, 1)


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "mirror_connect.cli", "verify", "--follow", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
