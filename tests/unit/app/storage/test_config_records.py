"""Keys and values of the config topic, against the records of a real Kafka Connect 4.3.1 worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage.config_records import Entry, RestartRequest
from tests.fakes.config_topic import recorded


def rewritten(key: str, value: bytes) -> Entry:
    """The record as our encoders write it, from what our decoders read."""
    body: dict[str, Any] = json.loads(value)
    task = records.task_key(key)
    encoders: dict[str, Callable[[str], Entry]] = {
        records.TARGET_STATE: lambda name: records.target_state_entry(name, records.target_state(value) or ""),
        records.CONNECTOR: lambda name: records.connector_entry(name, records.properties(value) or {}),
        records.TASK: lambda _: records.task_entry(*(task or ("", 0)), records.properties(value) or {}),
        records.COMMIT: lambda name: records.commit_entry(name, body["tasks"]),
        records.RESTART: lambda name: records.restart_entry(
            records.restart_request(name, value) or RestartRequest("", False, False)
        ),
        records.FENCING: lambda name: records.fencing_entry(name, body["task-count"]),
        records.LOGGER: lambda name: records.logger_entry(name, records.level(value) or ""),
    }
    if key == records.SESSION_KEY:
        session = records.session_key(value)
        assert session is not None
        return records.session_key_entry(session)
    prefix = next(prefix for prefix in encoders if key.startswith(prefix))
    return encoders[prefix](key.removeprefix(prefix))


@pytest.mark.parametrize(
    ("key", "value"),
    [pytest.param(k, v, id=f"{n}-{k.decode()}") for n, (k, v) in enumerate(recorded()) if v is not None],
)
def test_encoders_write_the_bytes_that_kafka_wrote(key: bytes, value: bytes) -> None:
    assert rewritten(key.decode(), value) == (key, value)


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        pytest.param("task-a-b-12", ("a-b", 12), id="dashes_in_the_name"),
        pytest.param("task--0", ("", 0), id="empty_name"),
        pytest.param("task-a--0", ("a-", 0), id="name_that_ends_with_a_dash"),
        pytest.param("task-a-x", None, id="no_number"),
    ],
)
def test_task_number_is_what_follows_the_last_dash(key: str, parsed: tuple[str, int] | None) -> None:
    assert records.task_key(key) == parsed


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        pytest.param("orders-2147483647", ("orders", 2**31 - 1), id="the_largest_int"),
        pytest.param("orders-2147483648", None, id="no_java_int"),
        pytest.param("orders-" + "9" * 5000, None, id="thousands_of_digits"),
        pytest.param("orders-" + "0" * 5000 + "7", ("orders", 7), id="thousands_of_zeros"),
        pytest.param("orders-", None, id="no_digits"),
        pytest.param("7", None, id="no_dash"),
        pytest.param("orders-²", None, id="a_digit_that_is_not_ascii"),
    ],
)
def test_a_number_is_a_java_int(name: str, parsed: tuple[str, int] | None) -> None:
    assert records.numbered(name) == parsed


@pytest.mark.parametrize(
    ("config", "members"),
    [
        pytest.param({"z": "1", "a": None}, ["z", "a", "name"], id="added_last"),
        pytest.param({"z": "1", "name": "other", "a": "2"}, ["z", "name", "a"], id="left_where_it_is"),
    ],
)
def test_a_connectors_record_has_its_config_in_order_with_a_name(
    config: dict[str, str | None], members: list[str]
) -> None:
    key, value = records.connector_entry("c", config)
    found = records.properties(value)
    assert found is not None
    assert (key, list(found), found) == (b"connector-c", members, {"name": "c", **config})


@pytest.mark.parametrize("value", [b'{"properties":{"a":1}}', b'{"properties":["a"]}', b"{}", b"[]", b"junk", None])
def test_properties_are_an_object_of_texts_and_nulls(value: bytes | None) -> None:
    assert records.properties(value) is None


def test_a_state_that_workers_do_not_know_is_never_written() -> None:
    assert records.target_state_entry("a", "STOPPED")[1] == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    with pytest.raises(ValueError, match="no target state: DANCING"):
        records.target_state_entry("a", "DANCING")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"tasks":0}', 0),
        (b'{"tasks":2147483647}', 2**31 - 1),
        (b'{"tasks":2147483648}', None),
        (b'{"tasks":-1}', None),
        (b'{"tasks":true}', None),
        (b'{"tasks":1.0}', None),
        (b'{"other":1}', None),
        (None, None),
    ],
)
def test_a_count_is_an_integer_from_0_to_the_largest_int(value: bytes | None, found: int | None) -> None:
    assert records.count(value, "tasks") == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b'{"include-tasks":true,"only-failed":true}', RestartRequest("a", True, True)),
        (b'{"include-tasks":"true"}', RestartRequest("a", False, False)),
        (b"{}", RestartRequest("a", False, False)),
        (b"junk", None),
        (None, None),
    ],
)
def test_a_flag_of_a_restart_counts_only_if_it_is_true(value: bytes | None, found: RestartRequest | None) -> None:
    assert records.restart_request("a", value) == found


def test_a_session_key_is_read_back_and_not_shown() -> None:
    key = records.SessionKey(b"k" * 32, "HmacSHA256", 7)
    assert (len(key.key), records.session_key(records.session_key_entry(key)[1])) == (32, key)
    assert repr(key) == "SessionKey(algorithm='HmacSHA256', created=7)"


@pytest.mark.parametrize(
    "value",
    [
        b'{"key":"MQ==","algorithm":"x"}',
        b'{"key":"MQ==","algorithm":1,"creation-timestamp":1}',
        b'{"key":"M","algorithm":"x","creation-timestamp":1}',
        b'{"key":"MQ==","algorithm":"x","creation-timestamp":-9223372036854775809}',
        None,
    ],
)
def test_a_session_key_with_anything_wrong_is_none(value: bytes | None) -> None:
    assert records.session_key(value) is None


def test_a_deletion_has_both_tombstones() -> None:
    assert records.deletion_entries("a") == [(b"connector-a", None), (b"target-state-a", None)]
