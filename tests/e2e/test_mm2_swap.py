"""Apache's MirrorMaker 2 and this product take turns in one group: nothing twice, nothing missing, never both at once.

As connectors of Kafka Connect, and as the dedicated program: against this product's with the same file, and against a worker
that is given its topics.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.reading import values
from tests.e2e.turns import EACH, MIDDLE, PARTITIONS, Turns, with_connect, with_dedicated, with_dedicated_and_worker

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2, pytest.mark.soak]

CLUSTER_UNUSABLE: Final = 4
JAVA, OURS, JAVA_AGAIN = range(3)
EACH_TURN = pytest.mark.parametrize(
    "turn", [pytest.param(JAVA, id="java"), pytest.param(OURS, id="ours"), pytest.param(JAVA_AGAIN, id="java_again")]
)


@pytest.fixture(
    scope="module",
    params=[
        "connect",
        pytest.param("dedicated", marks=pytest.mark.long),
        pytest.param("dedicated_and_worker", marks=pytest.mark.long),
    ],
)
def turns(request: pytest.FixtureRequest, source_cluster: LocalCluster, target_cluster: LocalCluster) -> Turns:
    make = {
        "connect": with_connect,
        "dedicated": with_dedicated,
        "dedicated_and_worker": with_dedicated_and_worker,
    }[request.param]
    return make(source_cluster, target_cluster)


def test_nothing_is_copied_twice_and_nothing_is_missing(turns: Turns) -> None:
    assert values(turns.target, turns.remote, PARTITIONS) == turns.produced


def test_the_connectors_that_java_stored_are_run_as_they_are(turns: Turns) -> None:
    aliases = [(config["source.cluster.alias"], config["target.cluster.alias"]) for config in turns.adopted.values()]
    assert aliases == [turns.aliases] * 3


def test_nobody_configures_the_connectors_again(turns: Turns) -> None:
    assert turns.config_writes == [len(turns.names)] * 3


def test_java_finds_the_positions_under_the_keys_it_would_have_written(turns: Turns) -> None:
    source, checkpoint, heartbeat = turns.names.values()
    names = (turns.aliases[0], turns.topic)
    keys = {
        *(
            f'["{source}",{{"cluster":"{names[0]}","partition":{partition},"topic":"{names[1]}"}}]'
            for partition in range(PARTITIONS)
        ),
        *(
            f'["{checkpoint}",{{"partition":{partition},"topic":"{turns.remote}","group":"{group}"}}]'
            for partition in range(PARTITIONS)
            for group in (turns.late, turns.reader)
        ),
        f'["{heartbeat}",{{"sourceClusterAlias":"{turns.aliases[0]}","targetClusterAlias":"{turns.aliases[1]}"}}]',
    }
    assert {key.decode() for key in turns.positions[-1]} == keys


def test_positions_are_in_the_partitions_where_java_put_them(turns: Turns) -> None:
    places = [{key: place for key, (place, _) in each.items()} for each in turns.positions]
    assert [before.items() <= after.items() for before, after in pairwise(places)] == [True, True]


@EACH_TURN
def test_positions_are_those_of_the_last_record(turns: Turns, turn: int) -> None:
    found = turns.source_positions(turns.positions[turn])
    assert [value for _, value in found.values()] == [b'{"offset":%d}' % (EACH * (turn + 1) - 1)] * PARTITIONS


@EACH_TURN
def test_each_turn_adds_syncs_checkpoints_and_heartbeats(turns: Turns, turn: int) -> None:
    before = turns.counts[turn - 1] if turn else (0, 0, 0)
    assert [more > less for more, less in zip(turns.counts[turn], before, strict=True)] == [True] * 3


def test_every_offset_sync_is_true_and_none_of_ours_goes_back(turns: Turns) -> None:
    syncs = turns.syncs()
    # Java's may: it sends them from two threads, outside of its lock (OffsetSyncWriter.firePendingOffsetSyncs).
    before, ours = turns.counts[0][0], turns.counts[1][0]
    for partition in range(PARTITIONS):
        found = [each.upstream for each in syncs[before:ours] if each.partition == partition]
        assert found == sorted(found)
        assert found[0] > max(each.upstream for each in syncs[:before] if each.partition == partition)
    assert [each for each in syncs if each.downstream != each.upstream] == []


def test_no_checkpoint_goes_back_and_none_skips_a_record(turns: Turns) -> None:
    checkpoints = turns.checkpoints()
    for key in {each.of for each in checkpoints}:
        found = [(each.upstream, each.downstream) for each in checkpoints if each.of == key]
        assert all(a <= b and c <= d for (a, c), (b, d) in pairwise(found)), f"{key}: {found}"
    assert [each for each in checkpoints if each.downstream > each.upstream] == []


def test_each_translates_by_the_syncs_that_the_other_one_left(turns: Turns) -> None:
    late = [each for each in turns.checkpoints() if each.group == turns.late]
    found = [[(each.upstream, each.downstream) for each in late if each.partition == p] for p in range(PARTITIONS)]
    assert found == [[(EACH, EACH), (2 * EACH, 2 * EACH)]] * PARTITIONS


def test_groups_on_the_target_go_forward_over_all_turns(turns: Turns) -> None:
    for number, (before, after) in enumerate(pairwise(turns.moved)):
        for partition in range(PARTITIONS):
            stood, stands = before[turns.reader][partition], after[turns.reader][partition]
            assert stood <= stands <= EACH * (number + 1) + MIDDLE


def test_heartbeats_go_on_in_the_order_of_their_time(turns: Turns) -> None:
    times = [each.timestamp for each in turns.heartbeats()]
    assert times == sorted(times)


def test_a_worker_is_refused_with_one_line_while_java_holds_the_group(turns: Turns) -> None:
    assert turns.refusal_code == CLUSTER_UNUSABLE
    complaints = [line for line in turns.refusal.splitlines() if line.startswith("mirror-connect: ")]
    assert len(complaints) == 1
    assert turns.group_id in complaints[0]
    assert "Traceback" not in turns.refusal
