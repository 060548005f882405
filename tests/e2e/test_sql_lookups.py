"""Records that are joined with a file and a compacted topic on their way, while both change, are missing, or are wrong."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.long]

SQL: Final = (
    "SELECT named_struct('id', value.id, 'region', r.region, 'name', c.name, 'by', c.key) AS value FROM records "
    "LEFT JOIN regions r ON r.id = value.country LEFT JOIN customers c ON c.number = value.id % 3 "
    "WHERE c.key IS NOT NULL OR value.id % 3 = 2"
)
SCHEMA: Final = "id BIGINT, country STRING"
COUNTRIES: Final = ("DE", "FR", "US")
ALLOWED_PATHS: Final = "spark.transform.lookup.allowed.paths"


class Link:
    """JSON records at the source, and what of them is on the target."""

    def __init__(self, source: LocalCluster, target: LocalCluster, product: Product, folder: Path) -> None:
        self.target, self.product = target, product
        self.topic = f"joined-{time.time_ns()}"
        self.customers = f"customers-{time.time_ns()}"
        self.file = folder / f"regions-{time.time_ns()}.csv"
        self.written = 0
        source.create_topic(self.topic, 1)
        source.create_topic(self.customers, 2, {"cleanup.policy": "compact"})
        self._producer = Producer({**source.librdkafka(), "enable.idempotence": True})
        self.config = {
            **mirror_config(source, target, self.topic),
            "spark.transform.sql": SQL,
            "spark.transform.value.schema": SCHEMA,
            "spark.transform.lookup.regions": str(self.file),
            "spark.transform.lookup.regions.schema": "id STRING, region STRING",
            "spark.transform.lookup.customers": f"source.{self.customers}",
            "spark.transform.lookup.customers.schema": "number BIGINT, name STRING",
            "spark.transform.lookup.refresh.interval.seconds": "1",
        }

    def create_stopped(self) -> None:
        """The connector, without tasks before it is resumed."""
        body = {"name": self.topic, "config": self.config, "initial_state": "STOPPED"}
        self.product._json("POST", "/connectors", body)

    def write(self, count: int) -> None:
        """So many records more."""
        for number in range(self.written, self.written + count):
            value = {"id": number, "country": COUNTRIES[number % len(COUNTRIES)]}
            self._producer.produce(self.topic, json.dumps(value), partition=0)
        self.written += count
        assert self._producer.flush(60) == 0

    def customer(self, key: str, value: Any, partition: int = 0) -> None:
        """A record of the lookup."""
        content = None if value is None else json.dumps(value)
        self._producer.produce(self.customers, content, key, partition=partition)
        assert self._producer.flush(60) == 0

    def regions(self, **regions: str) -> None:
        """Another file in place of the one before."""
        self.replace_file("".join(["other,region,id\n", *(f'"x,y",{each},{name}\n' for name, each in regions.items())]))

    def replace_file(self, text: str) -> None:
        """At once, as for a reader."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.file)

    def trace(self) -> str:
        """Of the task."""
        return "".join(each.get("trace", "") for each in self.product.status(self.topic).get("tasks", []))

    def copied(self) -> int:
        """How many records the target has."""
        return sum(end_offsets(self.target, f"A.{self.topic}").values())

    def wait_copied(self, count: int) -> list[dict[str, Any]]:
        """The last records on the target, after so many have come."""
        remote = f"A.{self.topic}"
        wait_for(lambda: self.copied() >= count, f"{count} records are copied", 120, arrived=self.copied)
        consumer = Consumer({**self.target.librdkafka(), "group.id": "x", "enable.auto.commit": False})
        consumer.assign([TopicPartition(remote, 0, 0)])
        found: list[dict[str, Any]] = []
        try:
            wait_for(lambda: _more(consumer, found) >= count, "the copies are read")
        finally:
            consumer.close()
        return found

    def wait_changed(self, done: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """All copies, once one of a record that was written meanwhile is so."""
        found: list[dict[str, Any]] = []

        def changed() -> bool:
            nonlocal found
            self.write(3)
            found = self.wait_copied(self.written)
            return any(done(each) for each in found[-3:])

        wait_for(changed, "a record has the changed lookup", 120, arrived=lambda: self.written)
        return found


def _more(consumer: Consumer, found: list[dict[str, Any]]) -> int:
    found += [json.loads(message.value() or b"") for message in consumer.consume(1000, 0.5) if message.error() is None]
    return len(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The only one from which the worker reads lookups."""
    return tmp_path_factory.mktemp("lookups")


@pytest.fixture(scope="module")
def worker(target_cluster: LocalCluster, folder: Path) -> Iterator[Product]:
    with Product(target_cluster, group="lookups", properties={ALLOWED_PATHS: str(folder)}) as made:
        yield made


@pytest.fixture
def link(source_cluster: LocalCluster, target_cluster: LocalCluster, worker: Product, folder: Path) -> Iterator[Link]:
    made = Link(source_cluster, target_cluster, worker, folder)
    yield made
    if worker.status(made.topic):
        worker.delete(made.topic)


def refusal(worker: Product, link: Link, path: Path) -> str:
    """What REST says of a config with this file."""
    with pytest.raises(AssertionError) as raised:
        worker.put(link.topic, {**link.config, "spark.transform.lookup.regions": str(path)})
    answer, _, _ = str(raised.value).partition("\n")
    assert f": {httpx.codes.BAD_REQUEST} " in answer
    return answer


def test_no_file_outside_of_the_allowed_directory_is_read_now_or_later(
    link: Link, worker: Product, folder: Path, tmp_path: Path
) -> None:
    outside, way_out = tmp_path / "secret.csv", folder / "link.csv"
    outside.write_text("id,region\nDE,secret\nUS,secret\n")
    os.symlink(outside, way_out)
    given = f"{ALLOWED_PATHS} has {folder}. "
    for path in (outside, folder / ".." / outside.parent.name / outside.name):
        said = (
            f"Invalid value {path} for configuration spark.transform.lookup.regions: the worker's file must allow it: "
        )
        assert said + given in refusal(worker, link, path)
    assert given in refusal(worker, link, way_out)
    assert "No such file" in refusal(worker, link, folder / "none.csv")
    # A path that was right when the config came, and leads elsewhere when the task begins.
    for number in range(3):
        link.customer(f"c{number}", {"number": number, "name": "x"})
    link.write(30)
    link.regions(DE="EU", US="NA")
    link.create_stopped()
    os.replace(way_out, link.file)
    worker.call("PUT", f"/connectors/{link.topic}/resume")
    wait_for_state(lambda: given in link.trace(), "the task says what it waits for")
    assert link.copied() == 0
    link.regions(DE="EU", US="NA")
    worker.wait_running(link.topic)
    link.wait_copied(30)
    # One that does so while the task copies.
    os.symlink(outside, way_out)
    os.replace(way_out, link.file)
    wait_for_state(lambda: given in link.trace(), "the status says that a link leads out")
    assert worker.states(link.topic) == ["RUNNING", "RUNNING"]
    link.write(30)
    assert {each.get("region") for each in link.wait_copied(60)} == {"EU", "NA", None}


def test_records_get_the_newest_lookup_and_none_is_copied_without_one(link: Link, worker: Product) -> None:
    link.customer("c0", {"number": 0, "name": "old"})
    link.customer("c1", {"number": 1, "name": "Ülle", "more": [1]}, 1)
    link.customer("c0", {"number": 0, "name": "Anna"})
    link.customer("c2", {"number": 2, "name": "gone"}, 1)
    link.customer("c2", None, 1)
    link.write(300)
    # A file that goes after the connector was accepted.
    link.regions(DE="old", US="old")
    link.create_stopped()
    link.file.unlink()
    worker.call("PUT", f"/connectors/{link.topic}/resume")
    wait_for_state(lambda: "Lookup regions" in link.trace(), "the task says what it waits for")
    assert "UNASSIGNED" in str(worker.status(link.topic)["tasks"])
    # A restart changes nothing of that.
    worker.call("POST", f"/connectors/{link.topic}/restart?includeTasks=true")
    wait_for_state(lambda: "UNASSIGNED" in str(worker.status(link.topic)["tasks"]), "the restarted task is UNASSIGNED")
    wait_for_state(lambda: "Lookup regions" in link.trace(), "it says again what it waits for")
    assert link.copied() == 0
    link.regions(DE="EU", US="NA")
    worker.wait_running(link.topic)
    names = {0: ("Anna", "c0"), 1: ("Ülle", "c1"), 2: (None, None)}
    for number, copy in enumerate(link.wait_copied(300)):
        name, key = names[number % 3]
        wanted = {"id": number, "region": {"DE": "EU", "US": "NA"}.get(COUNTRIES[number % 3]), "name": name, "by": key}
        assert copy == {field: value for field, value in wanted.items() if value is not None}
    # Each of the two changes.
    link.regions(DE="Europe", FR="Europe")
    link.wait_changed(lambda copy: copy.get("region") == "Europe")
    link.customer("c0", {"number": 0, "name": "Beate"})
    copies = link.wait_changed(lambda copy: copy.get("name") == "Beate")
    # An epoch that ends for a new lookup has committed all.
    assert [each["id"] for each in copies] == list(range(link.written))
    # What is wrong takes no place.
    link.replace_file("id,region\nDE,a\nDE,b\n")
    wait_for_state(
        lambda: "2 rows have the same id, the first is row 1" in link.trace(), "the status says what is wrong"
    )
    assert worker.states(link.topic) == ["RUNNING", "RUNNING"]
    ages = [line for line in worker.rest.get("/metrics").text.splitlines() if "_lookup_age_seconds{" in line]
    assert [f'connector="{link.topic}",lookup="regions"' in line for line in sorted(ages)] == [False, True]
    link.write(30)
    copies = link.wait_copied(link.written)
    assert {each.get("region") for each in copies[-30:]} == {"Europe", None}
    link.regions(DE="D")
    copies = link.wait_changed(lambda copy: copy.get("region") == "D")
    wait_for_state(lambda: "Lookup" not in link.trace(), "the status is right again")
    assert [each["id"] for each in copies] == list(range(link.written))
