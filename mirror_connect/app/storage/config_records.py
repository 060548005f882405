"""Keys and values of the config topic, as Kafka Connect writes them (docs/internal-formats.md, section 3).

This module only converts bytes and values. app/storage/config_view.py knows what the records mean together.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.app.storage import json_text

CONNECTOR: Final = "connector-"
TARGET_STATE: Final = "target-state-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
RESTART: Final = "restart-connector-"
FENCING: Final = "tasks-fencing-"
SESSION_KEY: Final = "session-key"
LOGGER: Final = "logger-cluster-"

STARTED: Final = "STARTED"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
TARGET_STATES: Final = frozenset({STARTED, PAUSED, STOPPED})

RawConfig = Mapping[str, str | None]
Entry = tuple[bytes, bytes | None]
# Task numbers and counts are ints in Java, times are longs.
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


def set_values(config: RawConfig) -> dict[str, str]:
    """The settings whose value is not null."""
    return {name: value for name, value in config.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers; `created` in ms since the epoch."""

    key: bytes = field(repr=False)
    algorithm: str
    created: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """POST …/restart with parameters: what to restart."""

    connector: str
    include_tasks: bool
    only_failed: bool


def connector_entry(name: str, config: RawConfig) -> Entry:
    """A connector's config in its own order; `name` comes last if the config does not have it."""
    properties = dict(config) if "name" in config else {**config, "name": name}
    return (CONNECTOR + name).encode(), json_text.encode({"properties": properties})


def task_entry(connector: str, task: int, config: RawConfig) -> Entry:
    """One task's config; it counts from the next commit on."""
    return f"{TASK}{connector}-{task}".encode(), json_text.encode({"properties": dict(config)})


def commit_entry(connector: str, tasks: int) -> Entry:
    """The commit of the task configs before it."""
    return (COMMIT + connector).encode(), json_text.encode({"tasks": tasks})


def target_state_entry(connector: str, state: str) -> Entry:
    """A target state. The member `state` is for workers before 3.5, which have no STOPPED."""
    if state not in TARGET_STATES:
        raise ValueError(f"no target state: {state}")
    v1 = PAUSED if state == STOPPED else state
    return (TARGET_STATE + connector).encode(), json_text.encode({"state": v1, "state.v2": state})


def restart_entry(request: RestartRequest) -> Entry:
    """A restart request. Every running worker that reads it acts on it."""
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return (RESTART + request.connector).encode(), json_text.encode(value)


def fencing_entry(connector: str, tasks: int) -> Entry:
    """The number of tasks that are fenced and may start (exactly-once only)."""
    return (FENCING + connector).encode(), json_text.encode({"task-count": tasks})


def session_key_entry(key: SessionKey) -> Entry:
    """The session key."""
    encoded = base64.b64encode(key.key).decode()
    value = {"key": encoded, "algorithm": key.algorithm, "creation-timestamp": key.created}
    return SESSION_KEY.encode(), json_text.encode(value)


def logger_entry(namespace: str, level: str) -> Entry:
    """A cluster-wide log level."""
    return (LOGGER + namespace).encode(), json_text.encode({"level": level})


def deletion_entries(connector: str) -> list[Entry]:
    """Both tombstones, as in Kafka, even if there never was a target state."""
    return [((CONNECTOR + connector).encode(), None), ((TARGET_STATE + connector).encode(), None)]


def task_key(key: str) -> tuple[str, int] | None:
    """Connector and number in a `task-…` key; the number follows the last `-`."""
    return numbered(key.removeprefix(TASK))


def numbered(name: str) -> tuple[str, int] | None:
    """`orders-12` as `orders` and 12; None if the number is missing or not a Java int."""
    connector, dash, digits = name.rpartition("-")
    # At most 10 digits without leading zeros: Python refuses to parse thousands of digits.
    digits = digits.lstrip("0") or digits[:1]
    if not (dash and digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_INT))):
        return None
    number = int(digits)
    return (connector, number) if number <= MAX_INT else None


def properties(value: bytes | None) -> dict[str, str | None] | None:
    """The `properties` of a connector or task record, texts and nulls; None if the record has another form."""
    found = (json_text.decode_object(value) or {}).get("properties")
    if not isinstance(found, dict) or not all(each is None or isinstance(each, str) for each in found.values()):
        return None
    return found


def target_state(value: bytes | None) -> str | None:
    """The state of a target-state record: `state.v2` if it is text, else `state`; None if it is unknown."""
    record = json_text.decode_object(value) or {}
    state = record.get("state.v2")
    if not isinstance(state, str):
        state = record.get("state")
    return state if isinstance(state, str) and state in TARGET_STATES else None


def count(value: bytes | None, member: str) -> int | None:
    """A count in a record: an integer from 0 to Java's largest int; None for anything else."""
    found = _integer((json_text.decode_object(value) or {}).get(member))
    return found if found is not None and 0 <= found <= MAX_INT else None


def restart_request(connector: str, value: bytes | None) -> RestartRequest | None:
    """A restart request. As in Kafka, a flag that is missing or not a boolean counts as false."""
    record = json_text.decode_object(value)
    if record is None:
        return None
    return RestartRequest(connector, record.get("include-tasks") is True, record.get("only-failed") is True)


def session_key(value: bytes | None) -> SessionKey | None:
    """The session key; None if anything is wrong with it."""
    record = json_text.decode_object(value) or {}
    key, algorithm = record.get("key"), record.get("algorithm")
    created = _integer(record.get("creation-timestamp"))
    if not isinstance(key, str) or not isinstance(algorithm, str) or created is None or abs(created) > MAX_LONG:
        return None
    try:
        return SessionKey(base64.b64decode(key, validate=True), algorithm, created)
    except ValueError:
        # Not only binascii.Error: text that is not ASCII raises ValueError.
        return None


def level(value: bytes | None) -> str | None:
    """The level of a logger record."""
    found = (json_text.decode_object(value) or {}).get("level")
    return found if isinstance(found, str) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
