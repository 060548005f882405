"""Since when a partition is given to no other task of its connector."""

from __future__ import annotations

import random

import pytest

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage import config_view, partition_owners
from mirror_connect.app.storage.config_view import ConfigSnapshot, ConfigView
from mirror_connect.app.storage.partition_owners import PartitionOwners, first_owners
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.partitions import TopicPartition

P = [TopicPartition("t", number) for number in range(6)]


def followed(*commits: tuple[str, ...]) -> PartitionOwners:
    """The commits have the offsets 10, 20, 30 …"""
    owners = first_owners(10, commits[0])
    for number, texts in enumerate(commits[1:], 2):
        owners = owners.following(10 * number, texts)
    return owners


@pytest.mark.parametrize(
    ("commits", "task", "since"),
    [
        pytest.param([("t-0", "t-1")], 0, 10, id="what_was_before_the_first_commit_is_unknown"),
        pytest.param([("t-1", "t-2"), ("t-1", "t-2,t-0")], 1, 10, id="a_new_one_had_no_owner_since_the_first_commit"),
        pytest.param([("t-0,t-1", "t-2"), ("t-1", "t-2,t-0")], 1, 20, id="it_moved"),
        pytest.param([("t-0,t-1", "t-2"), ("t-1", "t-2,t-0"), ("t-1", "t-0,t-2")], 1, 20, id="it_stays"),
        pytest.param([("t-0,t-1", "t-2"), ("t-1", "t-2"), ("t-1", "t-2,t-0")], 1, 20, id="taken_away_then_given"),
        pytest.param([("t-0,t-1", "t-2"), ("t-1", "t-2"), ("t-0", "t-2")], 0, 10, id="taken_away_and_given_back"),
        pytest.param([("t-0",), ("t-1", "t-0"), ("t-0",)], 0, 30, id="the_other_task_is_gone"),
        pytest.param([("t-0",), (), ("t-1", "t-0")], 1, 20, id="stopped_meanwhile"),
    ],
)
def test_since_when_no_other_task_was_given_it(commits: list[tuple[str, ...]], task: int, since: int) -> None:
    assert followed(*commits).since(task, P[0]) == since


def test_only_the_task_that_has_it_may_ask_for_it() -> None:
    owners = followed(("t-0", "t-1"), ("t-1", "t-0"))
    assert [owners.since(0, P[0]), owners.since(0, P[5]), owners.has_given(0, frozenset({P[1]}))] == [None, None, True]
    assert not owners.has_given(0, frozenset({P[0]}))
    assert not owners.has_given(7, frozenset({P[0]}))


def test_a_partition_that_two_configs_name_is_the_first_ones() -> None:
    owners = followed(("t-0", "t-0"))
    assert (owners.since(0, P[0]), owners.since(1, P[0])) == (10, None)


@pytest.mark.parametrize("seed", range(30))
def test_any_history_gives_what_its_commits_say(seed: int) -> None:
    dice = random.Random(seed)
    history: list[dict[TopicPartition, int]] = []
    owners = None
    for number in range(25):
        if history and dice.random() < 0.6:  # a change of few partitions
            owned = dict(history[-1])
            for partition in dice.sample(P, 2):
                owned.pop(partition, None)
                if dice.random() < 0.7:
                    owned[partition] = dice.randrange(4)
        else:
            owned = {p: dice.randrange(4) for p in P if dice.random() < 0.8}
        history.append(owned)
        texts = [
            ",".join(str(p) for p in P if owned.get(p) == task) for task in range(max(owned.values(), default=-1) + 1)
        ]
        owners = first_owners(0, texts) if owners is None else owners.following(number, texts)
        known: dict[TopicPartition, int] = {}
        for partition, task in owned.items():
            others = [at for at, then in enumerate(history) if then.get(partition, task) != task]
            known[partition] = others[-1] + 1 if others else 0
            assert owners.since(task, partition) == known[partition]
        commit = dice.randrange(number + 1)
        for task in range(5):
            asked = frozenset(dice.sample(P, 4))
            later = {p for p in asked if owned.get(p) == task and known[p] > commit}
            not_given = {p for p in asked if owned.get(p) != task}
            newest = max((known[p] for p in later), default=-1)
            assert owners.taken_after(task, asked, commit) == (later | not_given, newest)


def test_partitions_that_have_been_read_already_are_taken_as_they_are() -> None:
    owners = first_owners(1, ["t-1,t-0", "t-2"], {0: [P[1], P[0]], 1: [P[2]]}).following(2, ["t-0", "t-2"], {0: [P[0]]})
    assert (owners.given, owners.listed) == ((frozenset({P[0]}), frozenset({P[2]})), ([P[0]], [P[2]]))
    assert (owners.has_read(0, "t-0"), owners.has_read(0, "t-1,t-0"), owners.has_read(2, "")) == (True, False, False)


# In the config topic.


def viewed(*commits: tuple[str, ...] | None) -> ConfigSnapshot:
    """A connector with these task configs; None: it is deleted, and created again."""
    view = ConfigView()
    view.apply(*records.connector_entry("a", {"connector.class": "X"}), 0)
    for number, texts in enumerate(commits, 1):
        at = 10 * number
        if texts is None:
            for entry in records.deletion_entries("a"):
                view.apply(*entry, at)
            view.apply(*records.connector_entry("a", {"connector.class": "X"}), at + 1)
            continue
        for task, text in enumerate(texts):
            view.apply(*records.task_entry("a", task, {ASSIGNED_PARTITIONS: text}), at - 5 + task)
        view.apply(*records.commit_entry("a", len(texts)), at)
    return view.snapshot()


def test_commits_move_partitions() -> None:
    snapshot = viewed(("t-0", "t-1"), ("t-1", "t-0"))
    assert (snapshot.offset, snapshot.owners["a"].commit, snapshot.owners["a"].since(1, P[0])) == (20, 20, 20)


def test_a_config_that_is_written_again_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> list[TopicPartition]:
        read.append(text)
        return stored_partitions(text)

    monkeypatch.setattr(config_view, "stored_partitions", counted)
    monkeypatch.setattr(partition_owners, "stored_partitions", counted)
    owners = viewed(("t-0,t-3", "t-1"), ("t-0,t-3", "t-1,t-2"), ("t-0,t-3", "t-1,t-2")).owners["a"]
    assert read == ["t-0,t-3", "t-1", "t-1,t-2"]
    assert owners.listed == ([P[0], P[3]], [P[1], P[2]])


def test_after_a_deletion_nobody_has_any() -> None:
    gone = viewed(("t-0", "t-1"), None).owners["a"]
    again = viewed(("t-0", "t-1"), None, ("t-0",)).owners["a"]
    assert (gone.commit, gone.given, again.since(0, P[0])) == (20, (), 20)


@pytest.mark.parametrize("known", [False, True], ids=["a_new_reader", "one_that_has_read_an_earlier_commit"])
def test_after_a_commit_without_all_of_its_tasks_the_next_whole_one_is_the_first_that_is_known(known: bool) -> None:
    """Compaction took them from this reader. Workers that have read the commit before may own all that it gave them."""
    view = ConfigView()
    view.apply(*records.connector_entry("a", {"connector.class": "X"}), 1)
    if known:
        view.apply(*records.task_entry("a", 0, {ASSIGNED_PARTITIONS: "t-0"}), 2)
        view.apply(*records.commit_entry("a", 1), 3)
    view.apply(*records.commit_entry("a", 2), 20)
    between = view.snapshot().owners
    for task, text in enumerate(("t-1", "t-0")):
        view.apply(*records.task_entry("a", task, {ASSIGNED_PARTITIONS: text}), 28 + task)
    view.apply(*records.commit_entry("a", 2), 30)
    after = view.snapshot().owners["a"]
    assert ("a" in between, after.first, after.since(0, P[1]), after.since(1, P[0])) == (False, 30, 30, 30)


def test_a_commit_before_a_config_that_was_written_again_says_nothing_of_its_partitions() -> None:
    """The connector was paused, changed, and resumed. Compaction has removed its first config, and a worker is new."""
    view = ConfigView()
    view.apply(*records.task_entry("a", 0, {ASSIGNED_PARTITIONS: "t-0"}), 149)
    view.apply(*records.commit_entry("a", 1), 150)
    view.apply(*records.connector_entry("a", {"connector.class": "X"}), 300)
    between = view.snapshot().owners
    for task, text in enumerate(("t-1", "t-0")):
        view.apply(*records.task_entry("a", task, {ASSIGNED_PARTITIONS: text}), 408 + task)
    view.apply(*records.commit_entry("a", 2), 410)
    # A worker that has confirmed the commit at 150 may still have t-0 by it.
    assert ("a" in between, view.snapshot().owners["a"].since(1, P[0])) == (False, 410)
