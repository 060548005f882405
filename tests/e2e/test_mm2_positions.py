"""Apache's Connect and this product take turns in one group: nothing twice, nothing missing, and never both at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from tests.e2e.identity_topics import produce
from tests.e2e.product import OFFSETS_PARTITIONS, Product, mirror_config, wait_ends, wait_for
from tests.e2e.reading import messages, values

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2]

PARTITIONS = 3
RECORDS = 600
CLUSTER_UNUSABLE = 4
# Java's tasks get a few seconds to end, and on a busy machine give up before their last commit: it commits while it runs.
OFTEN = {"offset.flush.interval.ms": "1000"}


@dataclass
class Turns:
    """What was seen while Java, then this product, then Java again ran the same connector."""

    source: LocalCluster
    target: LocalCluster
    topic: str
    connector: str
    produced: list[list[bytes | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    # After each turn: key → (partition of connect-offsets, last value).
    positions: list[dict[bytes, tuple[int, bytes]]] = field(default_factory=list)
    refusal_code: int = 0
    refusal: str = ""
    adopted: dict[str, object] = field(default_factory=dict)

    def produce(self) -> None:
        """More records, as the next ones of each partition; none is like another."""
        first = sum(map(len, self.produced))
        rows = [(b"%d" % number, number % PARTITIONS) for number in range(first, first + RECORDS)]
        fields = ({"value": value, "partition": partition} for value, partition in rows)
        produce(self.source, self.topic, fields, **{"compression.type": "lz4"})
        for value, partition in rows:
            self.produced[partition].append(value)

    def wait_copied(self) -> None:
        """Until as much is on the target as was produced."""
        wait_ends(self.target, f"A.{self.topic}", {p: len(all_) for p, all_ in enumerate(self.produced)})

    def last_positions(self) -> set[bytes]:
        """What positions say when all that was produced is copied and committed."""
        return {b'{"offset":%d}' % (len(all_) - 1) for all_ in self.produced}

    def committed(self, offsets_topic: str) -> dict[bytes, tuple[int, bytes]]:
        """What connect-offsets says now."""
        found: dict[bytes, tuple[int, bytes]] = {}
        for partition in range(OFFSETS_PARTITIONS):
            for message in messages(self.target, offsets_topic, partition, isolation="read_committed"):
                found[message.key()] = (partition, message.value())
        return found

    def wait_committed(self, offsets_topic: str) -> None:
        """Until connect-offsets says of each partition the last record that was produced."""

        def reached() -> bool:
            said = [value for _, value in self.committed(offsets_topic).values()]
            return len(said) == PARTITIONS and set(said) == self.last_positions()

        wait_for(reached, f"positions are {self.last_positions()}", 60, 0.3)

    def note_positions(self, offsets_topic: str) -> None:
        """Keeps what connect-offsets says now."""
        self.positions.append(self.committed(offsets_topic))


@pytest.fixture(scope="module")
def turns(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Turns:
    """Java copies a part and stops; this product goes on and stops; Java goes on, and meanwhile this product is refused."""
    group, seen = "turns", Turns(source_cluster, target_cluster, "turns", "mirror-of-turns")
    source_cluster.create_topic(seen.topic, PARTITIONS)
    offsets = f"{group}-offsets"
    seen.produce()
    java = ConnectWorker(target_cluster, OFTEN, group=group, heap="512m")
    ours = Product(target_cluster, group=group)
    try:
        with java:
            config = mirror_config(source_cluster, target_cluster, seen.topic)
            status, answer = java.request("PUT", f"/connectors/{seen.connector}/config", config)
            assert status == 201, answer
            java.wait_running(seen.connector)
            seen.wait_copied()
            seen.wait_committed(offsets)
            java.stop()
            seen.note_positions(offsets)

            seen.produce()
            ours.start()
            ours.wait_running(seen.connector)
            seen.adopted = ours.call("GET", f"/connectors/{seen.connector}/config")
            seen.wait_copied()
            # No waiting here: that its end commits is a promise.
            assert ours.stop() == 0
            seen.note_positions(offsets)

            seen.produce()
            java.start()
            java.wait_running(seen.connector)
            said = len(ours.log_text())
            seen.refusal_code = ours.launch().wait_ended(60)
            seen.refusal = ours.log_text()[said:]
            seen.wait_copied()
            seen.wait_committed(offsets)
            java.stop()
            seen.note_positions(offsets)
    finally:
        ours.close()
    return seen


def test_nothing_is_copied_twice_and_nothing_is_missing(turns: Turns) -> None:
    assert values(turns.target, f"A.{turns.topic}", PARTITIONS) == turns.produced


def test_the_connector_that_java_stored_is_run_as_it_is(turns: Turns) -> None:
    assert turns.adopted["topics"] == turns.topic
    assert turns.adopted["source.cluster.alias"] == "A"


def test_java_finds_the_positions_under_the_keys_it_would_have_written(turns: Turns) -> None:
    keys = {
        b'["mirror-of-turns",{"cluster":"A","partition":%d,"topic":"turns"}]' % partition
        for partition in range(PARTITIONS)
    }
    assert [set(each) for each in turns.positions] == [keys] * 3


def test_positions_are_in_the_partitions_where_java_put_them(turns: Turns) -> None:
    places = [{key: place for key, (place, _) in each.items()} for each in turns.positions]
    assert places[1:] == places[:-1]


@pytest.mark.parametrize(
    "turn", [pytest.param(0, id="java"), pytest.param(1, id="ours"), pytest.param(2, id="java_again")]
)
def test_positions_are_those_of_the_last_record(turns: Turns, turn: int) -> None:
    last = RECORDS // PARTITIONS * (turn + 1) - 1
    assert {value for _, value in turns.positions[turn].values()} == {b'{"offset":%d}' % last}


def test_a_worker_is_refused_with_one_line_while_java_holds_the_group(turns: Turns) -> None:
    assert turns.refusal_code == CLUSTER_UNUSABLE
    complaints = [line for line in turns.refusal.splitlines() if line.startswith("mirror-connect: ")]
    assert len(complaints) == 1
    assert "turns" in complaints[0]
    assert "Traceback" not in turns.refusal
