"""Source offsets and their file: when it is written, what it says of topics, and what happens if it can't be written."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.app.errors import StartupError
from mirror_connect.app.standalone import file_log
from mirror_connect.app.standalone.file_log import ORIGINS_KEY, OffsetFileLog
from mirror_connect.app.standalone.offset_file import read_offset_file, write_offset_file
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.offset_stores import Reported
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.records.source_offsets import (
    OffsetOrigin,
    source_offset_headers,
    source_offset_key,
    source_offset_value,
)

PARTITION = {"cluster": "A", "partition": 0, "topic": "orders"}
KEY = source_offset_key("c", "A", "orders", 0)
ID = b"0123456789abcdef"
INTERVAL_MS = 20


class World:
    """A store on a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = OffsetFileLog(str(path), INTERVAL_MS)
        self.store = OffsetStore(self.log)

    def report(self, offset: int, topic_id: bytes | None = None, epoch: int = -1) -> None:
        self.log.note([Reported(KEY, source_offset_value(offset), source_offset_headers(topic_id, epoch))])

    async def offset(self) -> Any:
        return (await self.store.source_offsets("c", [PARTITION]))[0]

    def origin(self) -> OffsetOrigin:
        return self.store.origins("c", [PARTITION])[0]

    @property
    def file(self) -> dict[bytes, bytes | None]:
        found = read_offset_file(self.path)
        found.pop(ORIGINS_KEY, None)
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "offsets")
    await made.store.start()
    yield made
    await made.store.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_reported_offset_counts_at_once_and_is_soon_in_the_file(world: World) -> None:
    world.report(7)
    assert await world.offset() == {"offset": 7}
    assert not world.path.exists()
    await until(lambda: world.path.exists() and world.file == {KEY: b'{"offset":7}'})


async def test_the_next_start_has_the_offset_with_its_topic_and_epoch(world: World) -> None:
    world.report(7, ID, 3)
    await world.store.stop()
    after = World(world.path)
    await after.store.start()
    assert (await after.offset(), after.origin()) == ({"offset": 7}, OffsetOrigin(ID, 3))
    await after.store.stop()


async def test_an_offset_that_another_program_wrote_has_no_topic(world: World) -> None:
    world.report(7, ID, 3)
    await world.store.stop()
    write_offset_file(world.path, {**read_offset_file(world.path), KEY: b'{"offset":8}'})
    after = World(world.path)
    await after.store.start()
    assert (await after.offset(), after.origin()) == ({"offset": 8}, OffsetOrigin())
    await after.store.stop()


@pytest.mark.parametrize(
    "value", [b"[]", b'{"x":1}', b'{"\\ud800":["a","b",1]}', b"\xff", json.dumps({KEY.decode(): ["", 1, "2"]}).encode()]
)
async def test_unreadable_topics_of_offsets_are_unknown(tmp_path: Path, value: bytes) -> None:
    write_offset_file(tmp_path / "offsets", {KEY: b'{"offset":8}', ORIGINS_KEY: value})
    world = World(tmp_path / "offsets")
    await world.store.start()
    assert (await world.offset(), world.origin()) == ({"offset": 8}, OffsetOrigin())
    assert await world.store.entries("mirror-connect.origins") == []
    await world.store.stop()


async def test_what_rest_sets_is_in_the_file_when_it_answers_and_has_no_topic(world: World) -> None:
    world.report(7, ID, 3)
    await world.store.put("c", [(PARTITION, {"offset": 5})])
    assert (world.file, world.origin()) == ({KEY: b'{"offset":5}'}, OffsetOrigin())
    await world.store.forget("c")
    # As Kafka's worker: the key stays, with null.
    assert (world.file, await world.offset()) == ({KEY: None}, None)


async def test_a_change_that_cannot_be_written_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.report(7)
    monkeypatch.setattr(file_log, "write_offset_file", full)
    with pytest.raises(ClusterUnreachable, match="No space left"):
        await world.store.put("c", [(PARTITION, {"offset": 5})])
    assert await world.offset() == {"offset": 7}


async def test_a_change_that_is_given_up_while_it_is_written_is_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.report(7)
    await world.log.flush()
    begun, slow, written = threading.Event(), threading.Event(), []

    def write(path: str, offsets: Mapping[bytes, bytes | None]) -> None:
        begun.set()
        slow.wait(20)
        write_offset_file(path, offsets)
        written.append(offsets[KEY])

    monkeypatch.setattr(file_log, "write_offset_file", write)
    putting = asyncio.create_task(world.store.put("c", [(PARTITION, {"offset": 5})]))
    await until(begun.is_set)
    putting.cancel()
    await asyncio.gather(putting, return_exceptions=True)
    slow.set()
    await until(lambda: written[:1] == [b'{"offset":5}'])
    assert await world.offset() == {"offset": 7}
    await until(lambda: world.file == {KEY: b'{"offset":7}'})


async def test_what_is_reported_while_rest_changes_another_connector_is_kept(world: World) -> None:
    putting = asyncio.create_task(world.store.put("other", [(PARTITION, {"offset": 5})]))
    await asyncio.sleep(0)
    world.report(7)
    await putting
    await world.log.flush()
    assert world.file == {source_offset_key("other", "A", "orders", 0): b'{"offset":5}', KEY: b'{"offset":7}'}


async def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_log, "RETRY_S", 0.01)
    with monkeypatch.context() as broken:
        tried = []
        broken.setattr(file_log, "write_offset_file", lambda *each: full(*each, tried=tried))
        world.report(7)
        await until(lambda: len(tried) > 2)
        world.report(8)
    await until(lambda: world.path.exists() and world.file == {KEY: b'{"offset":8}'})
    assert caplog.text.count("No space left") == 1


async def test_a_bug_does_not_end_the_writing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "RETRY_S", 0.01)
    tried = []
    with monkeypatch.context() as broken:
        broken.setattr(file_log, "write_offset_file", lambda *_: [tried.append(None), 1 // 0])
        world.report(7)
        await until(lambda: len(tried) > 1)
    await until(lambda: world.path.exists() and world.file == {KEY: b'{"offset":7}'})


async def test_the_end_writes_the_last_offsets(world: World) -> None:
    world.log._soon_s = 60
    world.report(7)
    await world.store.stop()
    assert world.file == {KEY: b'{"offset":7}'}


async def test_the_start_removes_what_a_kill_left_half_written(tmp_path: Path) -> None:
    left = tmp_path / "offsets.0123456789ab.new"
    others = [tmp_path / name for name in ("offsets.new", "offsets.0123456789AB.new", "other.0123456789ab.new")]
    for each in (left, *others):
        each.write_bytes(b"half")
    (tmp_path / "offsets.ba9876543210.new").mkdir()
    await running_once(World(tmp_path / "offsets"))
    assert not left.exists()
    assert all(each.exists() for each in others)


async def test_what_a_kill_left_is_found_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    left = tmp_path / "disk" / "file.0123456789ab.new"
    left.write_bytes(b"half")
    (tmp_path / "offsets").symlink_to(tmp_path / "disk" / "file")
    await running_once(World(tmp_path / "offsets"))
    assert not left.exists()


async def running_once(world: World) -> None:
    await world.store.start()
    await world.store.stop()


async def test_a_file_that_is_none_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("{}")
    with pytest.raises(StartupError, match="is no offset file"):
        await World(path).store.start()


def full(*_: object, tried: list[object] | None = None) -> None:
    if tried is not None:
        tried.append(None)
    raise file_log.OffsetFileError("No space left on device")
