"""The process behind a connector: what it is told, what becomes of what it says, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from mirror_connect.app.storage.offsets import OffsetEntry
from mirror_connect.app.worker_connectors import sampling_verification
from mirror_connect.app.worker_connectors.sampling_verification import SamplingVerification
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.verified_records import VerifiedRecords
from tests.fakes.connector_context import FakeContext

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
SECRET = "s3cret-of-the-source"
POSITIONS = [
    OffsetEntry({"cluster": "A", "partition": 0, "topic": "orders"}, {"offset": 7}),
    OffsetEntry({"cluster": "formerly", "partition": 1, "topic": "orders"}, {"offset": 8}),
    OffsetEntry({"whatever": "a user wrote"}, {"offset": 9}),
]
# A process that writes what it hears to a file, and says what a test wants it to say.
HEAD = """
import json, os, pathlib, sys
def say(**event): print(json.dumps(event), flush=True)
def hear():
    line = sys.stdin.readline()
    with open(heard, "a") as out: out.write(line)
    return line
def fault(text, kind="missing", records=1): say(event="fault", text=text, kind=kind, records=records)
def progress(faults=0, copied=100, compared=10, counted=80, **kinds):
    say(event="progress", text="", faults=faults, copied=copied, compared=compared, counted=counted, faults_by_kind=kinds)
with open(heard + ".pid", "w") as out: out.write(str(os.getpid()))
hear()
"""
PROGRESS = (
    b'{"event": "progress", "text": "", "faults": 0, "copied": 9, "compared": 1, "counted": 8, "faults_by_kind": {}}'
)
STAYS = "\nwhile hear(): pass"


class Targets:
    async def chosen(self, config: object) -> Target:
        return Target(True, {}, {}, {"bootstrap.servers": "b:1"})


class Store:
    async def entries(self, connector: str) -> list[OffsetEntry]:
        return POSITIONS


async def offsets_of(config: object) -> Any:
    return Store()


class World:
    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard = directory / "heard"
        self.host = FakeContext()
        self.made: list[SamplingVerification] = []
        self._patch = monkeypatch

    def start(self, script: str) -> SamplingVerification:
        text = f"heard = {str(self.heard)!r}\n{HEAD}{script}"
        self._patch.setattr(sampling_verification, "COMMAND", (sys.executable, "-S", "-c", text))
        config = {
            "name": "c",
            "connector.class": CLASS,
            "source.cluster.alias": "A",
            "source.cluster.bootstrap.servers": "a:1",
            "source.cluster.sasl.jaas.config": f'x required username="u" password="{SECRET}";',
            "verify.follow.enabled": "true",
        }
        targets: Any = Targets()
        made = SamplingVerification(connector_definition(CLASS).settings(config), targets, offsets_of, self.host)
        self.made.append(made)
        made.start()
        return made

    @property
    def lines(self) -> list[str]:
        """What the status has said."""
        return [line for _, line in self.host.heard]

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)

    def pid(self) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(Path(f"{self.heard}.pid").read_text())
        return None

    def told(self) -> list[str]:
        return self.heard.read_text().splitlines() if self.heard.exists() else []


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(sampling_verification, "RETRY_S", (0.0,))
    world = World(tmp_path, monkeypatch)
    yield world
    for made in world.made:
        await made.stop()


async def test_it_is_told_the_link_and_the_positions_of_the_connectors_present_alias(world: World) -> None:
    world.start('say(event="positions")' + STAYS)
    await world.until(lambda: len(world.told()) == 2)
    assert world.told()[1] == '[["orders", 0, 7]]'
    assert '"bootstrap.servers": "b:1"' in world.told()[0]


async def test_a_fault_is_a_line_of_the_status_and_progress_counts_them(world: World) -> None:
    world.start('fault("orders-0: gone"); progress(faults=1200, missing=1200)' + STAYS)
    await world.until(lambda: len(world.lines) == 2)
    assert world.lines == [
        "1 record differs from the source; first: orders-0: gone",
        "1,200 records differ from the source; first: orders-0: gone",
    ]


async def test_all_is_well_is_no_line(world: World) -> None:
    world.start('progress(); say(event="positions")' + STAYS)
    await world.until(lambda: len(world.told()) == 2)
    assert world.lines == []


async def test_a_process_that_ends_is_started_again_and_what_was_found_stays(world: World) -> None:
    world.start('fault("orders-0: gone"); progress(faults=2, missing=2)')
    await world.until(lambda: any(line.startswith("4 records") for line in world.lines))
    assert world.lines[-1].startswith("4 records differ from the source; first: orders-0: gone")


async def test_what_keeps_it_from_verifying_is_said_at_the_second_failure_without_secrets(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(f'say(event="failed", text="login refused: {SECRET}")')
    await world.until(lambda: world.lines)
    assert world.lines == ["the copy is not being verified: login refused: [hidden]"]
    assert SECRET not in caplog.text


async def test_each_progress_is_told_with_all_that_was_found(world: World) -> None:
    world.start('progress(missing=0, changed=0); fault("x"); progress(1, 200, 20, 160, missing=1, changed=0)' + STAYS)
    await world.until(lambda: len(world.host.verifications) == 2)
    assert world.host.verifications == [
        VerifiedRecords(100, 10, 80, {"missing": 0, "changed": 0}),
        VerifiedRecords(200, 20, 160, {"missing": 1, "changed": 0}),
    ]


async def test_a_fault_alone_is_no_result_and_the_next_process_tells_of_it(world: World) -> None:
    again = "import pathlib; second = pathlib.Path(heard + '.again')"
    world.start(
        f'{again}\nif not second.exists(): second.touch(); fault("x", "changed", 3); raise SystemExit\nprogress()'
        + STAYS
    )
    await world.until(lambda: world.host.verifications)
    assert world.host.verifications == [VerifiedRecords(100, 10, 80, {"changed": 3})]


async def test_counts_never_go_back_when_the_link_does_and_add_up_over_processes(world: World) -> None:
    world.start("progress(0, 100, 10, 80); progress(0, 90, 11, 80)")
    await world.until(lambda: len(world.host.verifications) >= 3)
    assert world.host.verifications[:3] == [
        VerifiedRecords(100, 10, 80, {}),
        VerifiedRecords(100, 11, 80, {}),
        VerifiedRecords(200, 21, 160, {}),
    ]


async def test_without_progress_nothing_is_known(world: World) -> None:
    world.start('say(event="failed", text="away")')
    await world.until(lambda: world.lines)
    assert world.host.verifications == []


class Ending:
    """A process that has said why it can't go on, and ends when a test says so."""

    def __init__(self) -> None:
        self.stdin = self.stdout = self
        self.returncode: int | None = None
        self.said = [b'{"event": "failed", "text": "away"}']
        self.waited, self.over = asyncio.Event(), asyncio.Event()

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def __aiter__(self) -> Ending:
        return self

    async def __anext__(self) -> bytes:
        if not self.said:
            raise StopAsyncIteration
        return self.said.pop()

    async def communicate(self) -> None:
        self.waited.set()
        await self.over.wait()
        self.returncode = 1


def begin_endings(monkeypatch: pytest.MonkeyPatch, *said: bytes) -> list[Ending]:
    """Instead of processes; the n-th one says the n-th text in front of its last one. They end at once if there are any."""
    made: list[Ending] = []

    async def begin(*_command: str, **_options: Any) -> Any:
        process = Ending()
        process.said += [said[len(made)]] if len(made) < len(said) and said[len(made)] else []
        if said:
            process.over.set()
        made.append(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin)
    return made


async def test_the_log_hears_once_why_it_does_not_verify_and_again_after_it_did(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = begin_endings(monkeypatch, b"", b"", b"", PROGRESS)
    world.start("")
    await world.until(lambda: len(made) >= 8)
    assert sum("is not being verified: away" in record.getMessage() for record in caplog.records) == 2


async def test_one_that_followed_for_long_is_started_again_soon(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_verification, "STEADY_S", -1.0)
    monkeypatch.setattr(sampling_verification, "RETRY_S", (0.0, 3600.0))
    made = begin_endings(monkeypatch, b"")
    world.start("")
    await world.until(lambda: len(made) >= 3)


@pytest.mark.parametrize("turns", range(6))
async def test_it_stops_when_its_process_ends_in_that_very_moment(
    world: World, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    made = begin_endings(monkeypatch)
    monkeypatch.setattr(sampling_verification, "LAST_S", 600.0)
    # Should it go on in spite of its end, it is found waiting here.
    monkeypatch.setattr(sampling_verification, "RETRY_S", (3600.0,))
    following_it = world.start("")
    await world.until(lambda: made and made[0].waited.is_set())
    made[0].over.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await following_it.stop()


async def test_it_ends_with_its_connector_even_if_it_does_not_want_to(world: World) -> None:
    made = world.start("import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(9)")
    await world.until(world.pid)
    pid = world.pid()
    assert pid is not None
    await made.stop()
    assert not psutil.pid_exists(pid) or pid == os.getpid()


async def test_its_process_ends_though_nobody_waits_for_it_any_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling_verification, "LAST_S", 600.0)
    made = world.start("import time\nwhile True: time.sleep(9)")
    # By then the worker's side of it is there, too. A start that is cancelled kills its process at once.
    await world.until(world.told)
    pid = world.pid()
    assert pid is not None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await made.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await world.until(lambda: not psutil.pid_exists(pid))
