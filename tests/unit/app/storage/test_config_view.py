"""The state that records of the config topic make together, as the workers of Kafka Connect see it."""

from __future__ import annotations

import pytest

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage import config_view as view
from mirror_connect.app.storage.config_records import Entry
from tests.fakes.config_topic import recorded, viewed, with_tasks

CONFIG = {"connector.class": "X", "name": "a"}
CHANGED = {**CONFIG, "topics": "t"}


def test_recorded_topic_gives_the_state_that_its_worker_had_at_the_end() -> None:
    state = viewed(*recorded()).snapshot()
    assert set(state.connectors) == {"mm2-source", "mm2-checkpoint", "mm2-heartbeat"}
    assert set(state.target_states.values()) == {"STARTED"}
    assert dict(state.task_counts) == {"mm2-source": 3, "mm2-checkpoint": 1, "mm2-heartbeat": 1}
    assert state.inconsistent == frozenset()
    assert dict(state.fencing_counts) == {"mm2-source": 3}
    assert state.pending_fencing == {"mm2-checkpoint", "mm2-heartbeat", "mm2-bad"}
    assert state.session_key is not None
    assert state.session_key.created == 1795227653009


def test_recorded_stop_and_deletion_are_seen_when_they_happened() -> None:
    stopped = viewed(*recorded(before=26)).snapshot()
    assert stopped.target_state("mm2-heartbeat") == "STOPPED"
    assert stopped.tasks("mm2-heartbeat") == []
    deleted = viewed(*recorded(before=31)).snapshot()
    assert deleted.target_state("mm2-heartbeat") is None
    created_stopped = viewed(*recorded(before=33)).snapshot()
    assert created_stopped.target_state("mm2-heartbeat") == "STOPPED"


def test_recorded_task_configs_are_in_force_after_their_commit_only() -> None:
    assert viewed(*recorded(before=10)).snapshot().tasks("mm2-source") == []
    committed = viewed(*recorded(before=11)).snapshot().tasks("mm2-source")
    assert [config["task.index"] for config in committed] == ["0", "1"]


def test_commit_whose_tasks_compaction_took_makes_the_connector_inconsistent() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 1, CONFIG), records.commit_entry("a", 2)
    ).snapshot()
    assert state.inconsistent == {"a"}
    assert state.tasks("a") == []


def test_incomplete_set_is_not_completed_by_later_records() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG),
        records.task_entry("a", 1, CONFIG),
        records.commit_entry("a", 2),
        records.task_entry("a", 0, CONFIG),
        records.commit_entry("a", 2),
    ).snapshot()
    assert state.inconsistent == {"a"}


def test_complete_commit_heals_an_inconsistent_connector_and_counts_as_a_generation() -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 1, CONFIG), records.commit_entry("a", 2)
    )
    assert built.snapshot().generations.get("a") is None
    for entry in [*(records.task_entry("a", task, CONFIG) for task in range(2)), records.commit_entry("a", 2)]:
        built.apply(*entry)
    assert built.snapshot().inconsistent == frozenset()
    assert built.snapshot().generations["a"] == 0


def test_commit_of_no_tasks_needs_no_task_records() -> None:
    state = viewed(records.connector_entry("a", CONFIG), records.commit_entry("a", 0)).snapshot()
    assert (state.inconsistent, state.task_count("a")) == (frozenset(), 0)


def test_task_records_beyond_the_committed_count_do_no_harm() -> None:
    extra = [records.task_entry("a", task, CONFIG) for task in range(3)]
    state = viewed(records.connector_entry("a", CONFIG), *extra, records.commit_entry("a", 2)).snapshot()
    assert len(state.tasks("a")) == 2


def test_tasks_of_a_deleted_connector_do_not_come_alive_with_its_name() -> None:
    state = viewed(
        records.task_entry("a", 0, CONFIG),
        records.commit_entry("a", 1),
        records.connector_entry("a", CONFIG),
        records.commit_entry("a", 1),
    ).snapshot()
    assert state.inconsistent == {"a"}


def test_fencing_count_outlives_the_deletion_of_its_connector() -> None:
    state = viewed(
        records.connector_entry("a", CONFIG), records.fencing_entry("a", 4), *records.deletion_entries("a")
    ).snapshot()
    assert dict(state.fencing_counts) == {"a": 4}


@pytest.mark.parametrize(
    ("value", "state"),
    [
        pytest.param(b'{"state":"PAUSED"}', "PAUSED", id="worker_older_than_3.5"),
        pytest.param(b'{"state":"PAUSED","state.v2":"STOPPED"}', "STOPPED", id="both"),
        pytest.param(b'{"state":"PAUSED","state.v2":null}', "PAUSED", id="v2_null"),
        pytest.param(b'{"state":"DANCING"}', "STARTED", id="unknown_is_dropped"),
        pytest.param(b"junk", "STARTED", id="unreadable_is_dropped"),
    ],
)
def test_target_state_is_read_from_the_newest_member_known(value: bytes, state: str) -> None:
    built = viewed(records.connector_entry("a", CONFIG), (b"target-state-a", value))
    assert built.snapshot().target_state("a") == state


def test_tombstone_of_the_target_state_alone_starts_the_connector_again() -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.target_state_entry("a", "PAUSED"), (b"target-state-a", None)
    )
    assert built.snapshot().target_state("a") == "STARTED"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param((b"task-a-0", None), "the task config of a-0 is unreadable", id="task_tombstone"),
        pytest.param((b"task-a", b'{"properties":{}}'), "the task config of a is unreadable", id="task_without_number"),
        pytest.param(
            (b"connector-a", b'{"properties":[]}'), "the config of a is unreadable", id="config_that_is_no_map"
        ),
        pytest.param(
            (b"target-state-a", b'{"state":"DANCING"}'), "the target state of a is unreadable", id="unknown_state"
        ),
        pytest.param((b"commit-a", b'{"tasks":"1"}'), "the commit of a is unreadable", id="count_that_is_text"),
        pytest.param((b"tasks-fencing-a", b"{}"), "the task count of a is unreadable", id="no_count"),
        pytest.param((b"session-key", b'{"key":"%"}'), "the session key is unreadable", id="key_without_members"),
        pytest.param(
            (b"session-key", '{"key":"é","algorithm":"x","creation-timestamp":1}'.encode()),
            "the session key is unreadable",
            id="session_key_not_of_ascii",
        ),
        pytest.param(
            (b"session-key", b'{"key":"MQ==","algorithm":"x","creation-timestamp":9223372036854775808}'),
            "the session key is unreadable",
            id="session_key_of_no_time",
        ),
        pytest.param((b"what-is-this", b"{}"), "its key what-is-this is unknown", id="unknown_key"),
        pytest.param((None, b"{}"), "its key  is unknown", id="no_key"),
    ],
)
def test_record_that_can_not_be_read_changes_nothing(entry: tuple[bytes | None, bytes | None], reason: str) -> None:
    built = viewed(
        records.connector_entry("a", CONFIG), records.task_entry("a", 0, CONFIG), records.commit_entry("a", 1)
    )
    before = built.snapshot()
    assert built.apply(*entry) == view.Skipped(reason)
    assert built.snapshot() == before


@pytest.mark.parametrize(
    ("entry", "change"),
    [
        pytest.param(records.connector_entry("a", CONFIG), view.ConnectorUpdated("a"), id="config"),
        pytest.param((b"connector-a", None), view.ConnectorRemoved("a"), id="deletion"),
        pytest.param(records.commit_entry("a", 0), view.TasksUpdated("a"), id="commit"),
        pytest.param(records.commit_entry("b", 0), None, id="commit_of_no_connector"),
        pytest.param(records.task_entry("a", 0, CONFIG), None, id="task_without_commit"),
        pytest.param(records.target_state_entry("a", "PAUSED"), view.TargetStateChanged("a", "PAUSED"), id="state"),
        pytest.param(records.target_state_entry("a", "STARTED"), None, id="the_same_state"),
        pytest.param(records.fencing_entry("a", 1), None, id="fencing"),
        pytest.param(
            records.session_key_entry(records.SessionKey(b"k" * 32, "HmacSHA256", 1)),
            view.SessionKeyChanged(),
            id="session_key",
        ),
        pytest.param(records.logger_entry("root", "DEBUG"), view.LoggerLevelSet("root", "DEBUG"), id="log_level"),
        pytest.param((b"logger-cluster-root", None), None, id="log_level_tombstone"),
    ],
)
def test_a_record_returns_what_it_changed(entry: Entry, change: view.Change | None) -> None:
    assert viewed(records.connector_entry("a", CONFIG)).apply(*entry) == change


def test_a_snapshot_stays_as_it_was_and_is_made_once_for_each_record() -> None:
    built = viewed(records.connector_entry("a", CONFIG))
    before = built.snapshot()
    assert built.snapshot() is before
    built.apply(*records.connector_entry("b", CONFIG))
    assert (set(before.connectors), set(built.snapshot().connectors)) == ({"a"}, {"a", "b"})


@pytest.mark.parametrize(
    ("entries", "former"),
    [
        pytest.param(with_tasks("a", CONFIG, CONFIG), False, id="of_this_config"),
        pytest.param([*with_tasks("a", CONFIG, CONFIG), records.connector_entry("a", CHANGED)], True, id="of_another"),
        pytest.param([*with_tasks("a", CONFIG), records.connector_entry("a", CHANGED)], False, id="no_tasks"),
        pytest.param([records.connector_entry("a", CHANGED)], False, id="none_yet"),
        pytest.param(
            [*with_tasks("a", CONFIG, CONFIG)[1:], records.connector_entry("a", CHANGED)], False, id="compacted"
        ),
        pytest.param([*with_tasks("a", CONFIG, CONFIG), *records.deletion_entries("a")], False, id="deleted"),
    ],
)
def test_a_connector_has_former_tasks_until_those_of_its_config_are_committed(
    entries: list[Entry], former: bool
) -> None:
    assert viewed(*entries).snapshot().has_former_tasks("a") is former


def test_an_inconsistent_connector_has_no_tasks_and_the_applied_config_of_its_last_whole_commit() -> None:
    built = viewed(
        records.connector_entry("a", CONFIG),
        records.task_entry("a", 0, CONFIG),
        records.commit_entry("a", 1),
        records.connector_entry("a", CHANGED),
        records.commit_entry("a", 1),
    )
    state = built.snapshot()
    assert (state.task_count("a"), state.tasks("a"), state.applied_configs["a"]) == (0, [], CONFIG)


def test_secrets_in_configs_are_in_no_repr() -> None:
    built = viewed(records.connector_entry("a", {"sasl.jaas.config": "hunter2"}), *recorded(before=1))
    assert "hunter2" not in repr(built.snapshot())
    assert "xd\\x" not in repr(built.snapshot())
    assert "SessionKey(algorithm" in repr(built.snapshot())
