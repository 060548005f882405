from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.app.group.assignor import NOTHING, Share, work
from mirror_connect.app.group.messages import (
    Assignment,
    GroupState,
    Held,
    Lost,
    Metadata,
    Worker,
    assignment_from_bytes,
    assignments_to_bytes,
    metadata_from_bytes,
    metadata_to_bytes,
)
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId

SHARE = Share(frozenset({"orders"}), frozenset({TaskId("orders", 0), TaskId("orders", 3)}))
STATE = GroupState(
    7,
    41,
    (Worker("m-1", "http://a:1", "a:1", SHARE, {"orders": 40}),),
    (Lost("b:1", SHARE, {"orders": -1}, 90.0, "b-1"),),
    (Held("b:1", SHARE, 130.0),),
)


def test_metadata_comes_back_with_times_by_the_clock_of_its_reader() -> None:
    said = Metadata("http://a:1", "a:1", offset=42, claims=SHARE, confirmed={"orders": 40}, seen=STATE)
    there = metadata_from_bytes(metadata_to_bytes(said, 100.0), 1100.0)
    assert (there.url, there.worker_id, there.offset, there.claims, there.confirmed) == (
        "http://a:1",
        "a:1",
        42,
        SHARE,
        {"orders": 40},
    )
    assert there.seen.lost[0].lost_at == 1090.0
    assert there.seen.held[0].until == 1130.0
    assert there.seen.workers == STATE.workers


def test_an_assignment_comes_back() -> None:
    given = Assignment("m-1", "http://a:1", share=SHARE, state=STATE, moving=True, fence=frozenset({TaskId("x", 2)}))
    there = assignments_to_bytes({"m-1": given}, 100.0)["m-1"]
    assert assignment_from_bytes(there, 100.0) == given


def test_a_member_of_version_1_finds_the_leader_however_much_there_is() -> None:
    many = work({f"a-connector-with-a-long-name-{number}": 3 for number in range(1000)})
    state = GroupState(1, 1, (Worker("m-1", "http://a:1", "a:1", many),))
    given = Assignment("m-1", "http://a:1", share=many, state=state)
    value = assignments_to_bytes({"m-1": given}, 0.0)["m-1"]
    assert json.loads(value)["leader_url"] == "http://a:1"
    assert len(value) < 40_000
    assert assignment_from_bytes(value, 0.0) == given


def test_a_leader_of_version_1_finds_the_url() -> None:
    value = json.loads(metadata_to_bytes(Metadata("http://a:1", claims=SHARE), 0.0))
    assert (value["url"], value["version"]) == ("http://a:1", 2)


def test_what_version_1_says_is_understood() -> None:
    assert metadata_from_bytes(b'{"version": 1, "url": "http://a:1"}', 0.0) == Metadata("http://a:1", version=1)
    value = b'{"version": 1, "leader": "m-1", "leader_url": "http://a:1"}'
    assert assignment_from_bytes(value, 0.0) == Assignment("m-1", "http://a:1", 1)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="no_object"),
        pytest.param(b'{"version": 2}', id="names_missing"),
        pytest.param(b'{"version": 2, "packed": "AAAA"}', id="packed_badly"),
        pytest.param(b"\xff", id="no_text"),
    ],
)
def test_what_cannot_be_read_assigns_nothing_and_is_assigned_nothing(value: bytes) -> None:
    assert metadata_from_bytes(value, 0.0).version == 1
    assert assignment_from_bytes(value, 0.0).share == NOTHING
    assert assignment_from_bytes(value, 0.0).leader_url is None


def test_a_loss_does_not_seem_to_be_later_with_each_message() -> None:
    state, now = STATE, 100.0
    for _ in range(50):
        there = assignments_to_bytes({"": Assignment("m-1", None, state=state)}, now)[""]
        # It was under way for a while.
        now += 0.2
        state = assignment_from_bytes(there, now).state.as_known_to(state)
    assert state.lost[0].lost_at == 90.0
    # A loss that this process has heard of just now is as late as the message says.
    assert assignment_from_bytes(there, now).state.as_known_to(GroupState()).lost[0].lost_at > 90.0


@pytest.mark.parametrize("readiness", Readiness)
@pytest.mark.parametrize("leaving", [True, False])
def test_what_a_member_says_of_its_spark_and_its_end_comes_back(readiness: Readiness, leaving: bool) -> None:
    said = Metadata("http://a:1", "a:1", readiness=readiness, leaving=leaving)
    there = metadata_from_bytes(metadata_to_bytes(said, 0.0), 0.0)
    assert (there.readiness, there.leaving) == (readiness, leaving)


def test_a_member_that_says_nothing_of_its_spark_is_ready_and_stays() -> None:
    plain = json.loads(metadata_to_bytes(Metadata("http://a:1", "a:1", readiness=Readiness.FAILING, leaving=True), 0.0))
    for name in ("ready", "failing", "leaving"):
        del plain[name]
    there = metadata_from_bytes(json.dumps(plain).encode(), 0.0)
    assert (there.version, there.readiness, there.leaving) == (2, Readiness.READY, False)


# What other releases have written.

# A worker without sharing, and the first one with it. Their bytes, as the group had them. It did not name lost members.
FIRST_STATE = replace(STATE, lost=(replace(STATE.lost[0], member=""),))
METADATA_1 = b'{"version": 1, "url": "http://a:8083"}'
ASSIGNMENT_1 = b'{"version": 1, "leader": "m-1", "leader_url": "http://a:8083"}'
STATE_2 = (
    b'"generation":7,"offset":41,"workers":[{"member":"m-1","url":"http://a:1","worker_id":"a:1","connectors":["orders"],'
    b'"tasks":{"orders":[0,3]},"confirmed":{"orders":40},"exactly_once":""}],"lost":[{"worker_id":"b:1","connectors":'
    b'["orders"],"tasks":{"orders":[0,3]},"confirmed":{"orders":-1},"ago_ms":10000}],"held":[{"worker_id":"b:1",'
    b'"connectors":["orders"],"tasks":{"orders":[0,3]},"left_ms":30000}]'
)
METADATA_2 = (
    b'{"version":2,"url":"http://a:1","worker_id":"a:1","offset":42,"connectors":["orders"],"tasks":{"orders":[0,3]},'
    b'"confirmed":{"orders":40},"seen":{' + STATE_2 + b'},"exactly_once":"enabled"}'
)
ASSIGNMENT_2 = (
    b'{"version":2,"leader":"m-1","leader_url":"http://a:1","connectors":["orders"],"tasks":{"orders":[0,3]},'
    + STATE_2
    + b',"moving":true}'
)


def test_messages_of_a_worker_without_sharing_are_understood() -> None:
    assert metadata_from_bytes(METADATA_1, 0.0) == Metadata("http://a:8083", version=1)
    assert assignment_from_bytes(ASSIGNMENT_1, 0.0) == Assignment("m-1", "http://a:8083", version=1)


def test_messages_of_the_first_worker_that_shares_are_understood() -> None:
    said = Metadata("http://a:1", "a:1", 2, 42, SHARE, {"orders": 40}, FIRST_STATE, "enabled")
    assert metadata_from_bytes(METADATA_2, 100.0) == said
    assert assignment_from_bytes(ASSIGNMENT_2, 100.0) == Assignment(
        "m-1", "http://a:1", share=SHARE, state=FIRST_STATE, moving=True
    )


def reads(old: Any, new: Any) -> bool:
    """Whether all that an older worker reads is in the new one. It ignores other names."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and reads(each, new[name]) for name, each in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(reads, old, new))
    return bool(old == new)


def test_all_that_older_workers_read_is_written_as_they_read_it() -> None:
    now = json.loads(metadata_to_bytes(metadata_from_bytes(METADATA_2, 100.0), 100.0))
    assert reads(json.loads(METADATA_2), now)
    given = json.loads(assignments_to_bytes({"m-1": assignment_from_bytes(ASSIGNMENT_2, 100.0)}, 100.0)["m-1"])
    assert reads(json.loads(ASSIGNMENT_2), given)
    assert json.loads(ASSIGNMENT_1).keys() <= given.keys()
    assert json.loads(METADATA_1).keys() <= now.keys()
