"""Records of a config topic, and what a worker has read of it.

`recorded`: those that a real Kafka Connect 4.3.1 worker wrote (tests/fixtures/worker-connect-configs.jsonl).
"""

from __future__ import annotations

import json

from mirror_connect.app.storage.config_records import Entry, RawConfig, commit_entry, connector_entry, task_entry
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from tests.paths import FIXTURES

FIXTURE = FIXTURES / "worker-connect-configs.jsonl"


def recorded(before: int = 1_000_000) -> list[Entry]:
    """Its records below the offset `before`."""
    lines = [json.loads(line) for line in FIXTURE.read_text().splitlines()]
    return [
        (bytes.fromhex(line["key_hex"]), bytes.fromhex(line["value_hex"]) if line["value_hex"] is not None else None)
        for line in lines
        if line["offset"] < before
    ]


def viewed(*entries: Entry) -> ConfigView:
    """The view of all these, one after the other."""
    view = ConfigView()
    for key, value in entries:
        view.apply(key, value)
    return view


def with_tasks(name: str, config: RawConfig, *tasks: RawConfig) -> list[Entry]:
    """A connector and its task configs, committed."""
    entries = [task_entry(name, number, task) for number, task in enumerate(tasks)]
    return [connector_entry(name, config), *entries, commit_entry(name, len(tasks))]


def tasks_of(name: str, config: RawConfig, *assigned: str) -> list[Entry]:
    """A source connector with one task for each of `assigned`, as it makes them."""
    return with_tasks(name, config, *({**config, ASSIGNED_PARTITIONS: text} for text in assigned))


def no_others() -> OtherCopies:
    """For a connector that is alone."""
    return OtherCopies(ConfigView().snapshot, "")
