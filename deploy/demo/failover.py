"""A group moves: it reads half of `test` on kafka-1, its consumer ends, and it continues in `kafka-1.test` on kafka-2.

The article does this by hand and waits two minutes, because the connectors' intervals are 60 s. Here REST changes them to
2 s while the connector runs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import httpx

from deploy.demo.group import GROUP, GroupPosition, GroupReader
from deploy.demo.proof import Record, read_whole, went_on
from deploy.demo.records import PARTITIONS, SILENT_S, SOURCE_TOPIC, TARGET_TOPIC, SourceLines
from deploy.demo.stage import PATIENCE_S, READER, Stage
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat

CONNECTOR: Final = "mirror-checkpoint-connector"
SOURCE_ALIAS: Final = "kafka-1"
TARGET_ALIAS: Final = "kafka-2"
CHECKPOINTS: Final = "kafka-1.checkpoints.internal"
HEARTBEATS: Final = "heartbeats"
WANTED: Final = {
    "sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": "2",
    "sync.group.offsets.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
}
WRITTEN_MEANWHILE: Final = 20


def move_group(stage: Stage) -> None:
    """Moves the group and adds the claims."""
    changed = _change_settings(stage)
    with contextlib.closing(SourceLines(stage.source)) as lines:
        before, committed, moved = _read_on_source(stage)
        lines.write(WRITTEN_MEANWHILE)
        stage.screen.say(f"its consumer on kafka-1 has ended; {WRITTEN_MEANWHILE} more lines are written there")
        after = _read_on_target(stage, lines, before.count)
    stage.claims += went_on(GROUP, read_whole(stage.source, READER, SOURCE_TOPIC), before.read, after.read)
    _prove_checkpoints(stage, committed, moved)
    _prove_heartbeats(stage)
    _prove_change(stage, changed)


def _change_settings(stage: Stage) -> dict[str, str]:
    """Changes the running connector's settings through REST, where they differ."""
    path = f"/connectors/{CONNECTOR}/config"
    config = stage.rest.get(path).raise_for_status().json()
    changed = {name: value for name, value in WANTED.items() if config.get(name) != value}
    answer = stage.rest.patch(path, json=changed)
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"PATCH {path} was answered with {answer.status_code}: {answer.text}")
    stage.screen.say(f"PATCH {path}")
    for name, value in changed.items():
        stage.screen.quote(f"{name}: {config.get(name, 'not set')} → {value}")
    return changed


def _read_on_source(stage: Stage) -> tuple[GroupReader, dict[int, int], dict[int, int]]:
    """Reads the first half of each partition, commits, and waits until the commit is synced to kafka-2.

    Returns the reader, and the committed offsets on kafka-1 and kafka-2.
    """
    whole = read_whole(stage.source, READER, SOURCE_TOPIC)
    until = {partition: _middle(records) for partition, records in whole.items()}
    with (
        contextlib.closing(GroupReader(stage.source, until)) as reader,
        contextlib.closing(GroupPosition(stage.target, PARTITIONS)) as position,
    ):

        def half_read() -> bool:
            reader.poll()
            return reader.count >= sum(until.values())

        stage.screen.wait(f"{GROUP} is reading on kafka-1", half_read, PATIENCE_S, poll_s=0.02)
        committed = reader.commit()
        stage.screen.say(f"{GROUP} has read half of {SOURCE_TOPIC} on kafka-1, up to these, and commits:")
        _quote(stage, reader.last)

        seen: dict[int, int] = {}
        changed = time.monotonic()

        def moved() -> dict[int, int] | None:
            nonlocal seen, changed
            stage.worker.check_alive()
            now = position.now()
            if now != seen:
                seen, changed = now, time.monotonic()
            # Both topics have the same ends, so the next record has the same offset on both sides. If the group stays at
            # another offset, the later comparison shows the consequence.
            rests = len(now) == len(committed) and time.monotonic() - changed > SILENT_S
            return now if now == committed or rests else None

        there = stage.screen.wait(f"{GROUP} is on its way to kafka-2", moved, PATIENCE_S)
        stage.screen.say(f"{GROUP} is on kafka-2: {_offsets(there)}")
    return reader, committed, there


def _read_on_target(stage: Stage, lines: SourceLines, read_before: int) -> GroupReader:
    """Reads with a new consumer of the group on the other cluster, until it has read the rest."""
    wanted = sum(lines.ends().values()) - read_before
    heard = time.monotonic()
    with contextlib.closing(GroupReader(stage.target)) as reader:

        def all_read() -> bool:
            nonlocal heard
            stage.worker.check_alive()
            if reader.poll():
                heard = time.monotonic()
            # If nothing arrives any more, the comparison shows what was skipped.
            return reader.count >= wanted or time.monotonic() - heard > SILENT_S

        stage.screen.wait(
            lambda: f"{GROUP} has read {reader.count:,} of {wanted:,} on kafka-2", all_read, PATIENCE_S, poll_s=0.02
        )
        stage.screen.say(f"a consumer of {GROUP} on kafka-2 begins with")
        _quote(stage, reader.first)
        if reader.count:
            reader.commit()
    stage.screen.say(f"and has read {reader.count:,} to the end, of {wanted:,} that were left")
    return reader


def _prove_checkpoints(stage: Stage, committed: Mapping[int, int], moved: Mapping[int, int]) -> None:
    newest = {record.key: record.value for records in _read(stage, CHECKPOINTS) for record in records}
    wanted = [Checkpoint(GROUP, TARGET_TOPIC, p, committed[p], moved[p]) for p in sorted(committed)]
    found = [each for each in wanted if newest.get(each.key()) == each.value()]
    stage.prove(
        f"checkpoints: {len(found)} of {len(wanted)} partitions of {GROUP} in {CHECKPOINTS}, "
        + "from kafka-1's offset to kafka-2's: "
        + " and ".join(f"{each.upstream:,} → {each.downstream:,}" for each in found),
        bool(wanted) and found == wanted,
    )


def _prove_heartbeats(stage: Stage) -> None:
    keys = [record.key for records in _read(stage, HEARTBEATS) for record in records]
    ours = keys.count(Heartbeat(SOURCE_ALIAS, TARGET_ALIAS, 0).key())
    stage.prove(
        f"heartbeats: {ours} of {len(keys)} in {HEARTBEATS} on kafka-2 say {SOURCE_ALIAS} → {TARGET_ALIAS}",
        0 < ours == len(keys),
    )


def _prove_change(stage: Stage, changed: Mapping[str, str]) -> None:
    tasks = [task["config"] for task in stage.rest.get(f"/connectors/{CONNECTOR}/tasks").raise_for_status().json()]
    there = sum(all(config.get(name) == value for config in tasks) for name, value in changed.items())
    stage.prove(
        f"change: the task of {CONNECTOR} has {there} of {len(changed)} settings that were changed while it ran",
        bool(tasks) and 0 < there == len(changed),
    )


def _middle(records: Sequence[Record]) -> int:
    """The offset of a record in the middle with a text to show. The other side reads it first."""
    half = len(records) // 2
    return next((offset for offset in range(half, len(records)) if records[offset].value), half)


def _read(stage: Stage, topic: str) -> Iterable[list[Record]]:
    return read_whole(stage.target, READER, topic).values()


def _quote(stage: Stage, lines: Mapping[int, str]) -> None:
    for _, line in sorted(lines.items()):
        stage.screen.quote(line)


def _offsets(positions: Mapping[int, int]) -> str:
    return ", ".join(f"{TARGET_TOPIC}-{partition} @ {offset}" for partition, offset in sorted(positions.items()))
