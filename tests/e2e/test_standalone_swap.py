"""Kafka's standalone worker and this product's take turns with one worker file, connectors' files and one offset file.

Nothing is copied twice, nothing is missing, and each continues from the offsets that the other one left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.broker_config import write_properties
from deploy.local.connect import StandaloneWorker
from mirror_connect.app.standalone.offset_file import read_offset_file
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.e2e.turns import EACH, KINDS, OFTEN, PARTITIONS, SETTINGS, Turns
from tests.paths import ROOT

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2, pytest.mark.soak, pytest.mark.long]

EACH_TURN = pytest.mark.parametrize(
    "turn", [pytest.param(0, id="java"), pytest.param(1, id="ours"), pytest.param(2, id="java_again")]
)
# Java's virtual machine, ended by SIGTERM.
ENDED_BY_TERM: Final = 143


@dataclass
class FileTurns(Turns):
    """The positions are those of the offset file."""

    offsets: Path = Path()
    # After each turn: all topics of both clusters.
    topics: list[list[str]] = field(default_factory=list)
    java_log: str = ""

    def stored(self) -> dict[bytes, tuple[int, bytes]]:
        """What the file says now."""
        return {key: (0, value) for key, value in read_offset_file(self.offsets).items() if value is not None}

    def stored_configs(self) -> list[tuple[str, dict[str, str]]]:
        """Configs are in no topic."""
        return []

    def note(self) -> None:
        """The topics, too."""
        super().note()
        self.topics.append(sorted(f"{c.name}: {name}" for c in (self.source, self.target) for name in _topics(c)))


def _topics(cluster: LocalCluster) -> list[str]:
    return list(cluster.admin().list_topics(timeout=60).topics)


@pytest.fixture(scope="module")
def turns(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> FileTurns:
    names = {kind: f"alone-{kind.lower()}" for kind in KINDS}
    turns = FileTurns(source_cluster, target_cluster, "alone-turns", ("AS", "AT"), names, "", "", "")
    directory = tmp_path_factory.mktemp("standalone")
    turns.offsets = directory / "connect.offsets"
    source_cluster.create_topic(turns.topic, PARTITIONS)
    configs = [_config(turns, kind) for kind in KINDS]
    java = StandaloneWorker(target_cluster, configs, OFTEN, offsets=turns.offsets, heap="512m")
    files = [str(write_properties(directory / f"{config['name']}.properties", config)) for config in configs]
    script = ROOT / "bin" / "connect-standalone.sh"
    ours = Product(target_cluster, group="alone", command=[script], arguments=files)
    # Java's worker file, with another port.
    ours.properties = {**java.properties, "listeners": f"http://127.0.0.1:{ours.port}"}
    try:
        java.start()
        turns.turn(exact=False)
        turns.wait_committed()
        assert java.stop() == ENDED_BY_TERM
        turns.note()

        ours.start()
        turns.turn(exact=True)
        # No waiting for positions here: that its end commits is a promise.
        assert ours.stop() == 0
        turns.note()

        java.start()
        turns.turn(exact=False)
        turns.wait_committed()
        java.stop()
        turns.note()
        turns.java_log = java.log.read_text("utf-8")
    finally:
        ours.close()
        java.close()
    return turns


def _config(turns: FileTurns, kind: str) -> dict[str, str]:
    return {
        **mirror_config(turns.source, turns.target, turns.topic),
        **SETTINGS,
        "name": turns.names[kind],
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": turns.aliases[0],
        "target.cluster.alias": turns.aliases[1],
        "groups": f"{turns.late},{turns.reader}",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
    }


def test_nothing_is_copied_twice_and_nothing_is_missing(turns: FileTurns) -> None:
    assert values(turns.target, turns.remote, PARTITIONS) == turns.produced


@EACH_TURN
def test_positions_in_the_file_are_those_of_the_last_record(turns: FileTurns, turn: int) -> None:
    found = turns.source_positions(turns.positions[turn])
    assert [value for _, value in found.values()] == [b'{"offset":%d}' % (EACH * (turn + 1) - 1)] * PARTITIONS


def test_the_file_has_the_keys_that_java_writes_and_one_of_ours(turns: FileTurns) -> None:
    source, checkpoint, heartbeat = turns.names.values()
    name, (upstream, downstream) = turns.topic, turns.aliases
    keys = {
        *(f'["{source}",{{"cluster":"{upstream}","partition":{p},"topic":"{name}"}}]' for p in range(PARTITIONS)),
        *(
            f'["{checkpoint}",{{"partition":{p},"topic":"{turns.remote}","group":"{group}"}}]'
            for p in range(PARTITIONS)
            for group in (turns.late, turns.reader)
        ),
        f'["{heartbeat}",{{"sourceClusterAlias":"{upstream}","targetClusterAlias":"{downstream}"}}]',
    }
    # The group that commits after Java's turn has no checkpoint before the next one.
    assert {key.decode() for key in turns.positions[0]} <= keys
    # Java keeps the key that only we read.
    ours = keys | {'["mirror-connect.origins",null]'}
    assert [{key.decode() for key in each} for each in turns.positions[1:]] == [ours, ours]


def test_java_says_nothing_of_what_it_finds_in_the_file(turns: FileTurns) -> None:
    assert "mirror-connect" not in turns.java_log


def test_the_one_topic_that_java_has_not_is_of_our_offset_ranges(turns: FileTurns) -> None:
    before, *later = map(set, turns.topics)
    assert [each - before for each in later] == [{f"target: mm2-offset-runs.{turns.aliases[0]}.internal"}] * 2


@EACH_TURN
def test_each_turn_adds_syncs_checkpoints_and_heartbeats(turns: FileTurns, turn: int) -> None:
    before = turns.counts[turn - 1] if turn else (0, 0, 0)
    assert [more > less for more, less in zip(turns.counts[turn], before, strict=True)] == [True] * 3


def test_no_checkpoint_goes_back_and_none_skips_a_record(turns: FileTurns) -> None:
    checkpoints = turns.checkpoints()
    for key in {each.of for each in checkpoints}:
        found = [(each.upstream, each.downstream) for each in checkpoints if each.of == key]
        assert all(a <= b and c <= d for (a, c), (b, d) in pairwise(found)), f"{key}: {found}"
    assert [each for each in checkpoints if each.downstream > each.upstream] == []


def test_each_translates_by_the_syncs_that_the_other_one_left(turns: FileTurns) -> None:
    late = [each for each in turns.checkpoints() if each.group == turns.late]
    found = [[(each.upstream, each.downstream) for each in late if each.partition == p] for p in range(PARTITIONS)]
    assert found == [[(EACH, EACH), (2 * EACH, 2 * EACH)]] * PARTITIONS
