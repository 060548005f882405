"""Commands run in this process, against workers that answer over real sockets in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from mirror_connect.cli.__main__ import run
from mirror_connect.cli.commands import COMMANDS
from tests.fakes.connect_worker import FakeWorker, serving, source_config
from tests.fakes.links_worker import LinksWorker, answering


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a table without its head, as words."""
        return [line.split() for line in self.out.splitlines()[1:]]

    @property
    def texts(self) -> list[str]:
        """The same, with one blank between words."""
        return [" ".join(row) for row in self.rows]


Mirror = Callable[..., Done]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No context of whoever runs the tests."""
    found = tmp_path / "home"
    found.mkdir()
    monkeypatch.setenv("HOME", str(found))
    for name in ("XDG_CONFIG_HOME", "MIRROR_CONNECT_PASSWORD", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def mirror(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """`mirror("status", "-o", "json")`."""

    def command(name: str, *arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", [])
        with pytest.raises(SystemExit) as ended:
            run(COMMANDS[name], arguments)
        said = capsys.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)

    return command


class Thread:
    """A running loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True)
class Served:
    """A worker in memory with the real REST interface."""

    url: str
    worker: FakeWorker
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    def put(self, name: str, **more: str) -> None:
        """Makes a source connector, with `tasks__max` for tasks.max."""
        assert httpx.put(f"{self.url}/connectors/{name}/config", json=source_config(**more)).is_success

    def config(self, name: str) -> dict[str, str]:
        """A connector's config."""
        return dict(httpx.get(f"{self.url}/connectors/{name}/config").json())


@contextlib.contextmanager
def served_in_a_thread(**of_serving: Any) -> Iterator[Served]:
    """`of_serving`: as `serving` has them."""
    thread = Thread()

    @contextlib.asynccontextmanager
    async def both() -> AsyncIterator[tuple[FakeWorker, str]]:
        async with FakeWorker().running() as worker, serving(worker.herder, **of_serving) as client:
            yield worker, str(client.base_url)

    context = both()
    try:
        worker, url = thread.run(context.__aenter__())  # type: ignore[arg-type]
        yield Served(url, worker, thread.run)
        thread.run(context.__aexit__(None, None, None))  # type: ignore[arg-type]
    finally:
        thread.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """A worker without connectors."""
    with served_in_a_thread() as found:
        yield found


@pytest.fixture
def linked() -> Iterator[LinksWorker]:
    """A worker that tells of links."""
    with answering(LinksWorker()) as worker:
        yield worker
