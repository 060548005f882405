"""What the demo's steps share: two clusters, a worker, its connectors and the claims."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import httpx
import psutil

from deploy.demo.proof import Claim
from deploy.demo.screen import Screen
from deploy.demo.worker import WorkerProcess
from deploy.local import LocalCluster

READER: Final = "admin"
REST_USER: Final = "init"
REST_PASSWORD: Final = "init-secret"
# A limit for what hangs. A small, busy machine must still succeed.
PATIENCE_S: Final = 180.0

S = TypeVar("S", bound="Stage")
T = TypeVar("T")


@dataclass
class Stage:
    """The steps fill it in their order. `closing` ends in reverse order what they started."""

    screen: Screen
    directory: Path
    closing: contextlib.ExitStack
    claims: list[Claim] = field(default_factory=list)
    _source: LocalCluster | None = None
    _target: LocalCluster | None = None
    _worker: WorkerProcess | None = None
    _rest: httpx.Client | None = None

    @property
    def source(self) -> LocalCluster:
        """kafka-1."""
        return _there(self._source)

    @property
    def target(self) -> LocalCluster:
        """kafka-2."""
        return _there(self._target)

    @property
    def worker(self) -> WorkerProcess:
        """The one worker."""
        return _there(self._worker)

    @property
    def rest(self) -> httpx.Client:
        """A client of its REST interface, with credentials."""
        return _there(self._rest)

    @property
    def url(self) -> str:
        """The address of the REST interface."""
        return str(self.rest.base_url).rstrip("/")

    @property
    def log(self) -> Path:
        """The worker's log."""
        return self.directory / "worker.log"

    @property
    def connectors(self) -> list[str]:
        """Names of the connectors that deploy-connectors.sh deploys, by their JSON files."""
        return sorted(path.stem for path in (self.directory / "connectors").glob("*.json"))

    def processes(self) -> list[psutil.Process]:
        """The worker's, and all that it has started."""
        return self.worker.tree()

    def set_clusters(self, source: LocalCluster, target: LocalCluster) -> None:
        """Sets the two clusters, which the demo closes."""
        self._source, self._target = source, target
        self.closing.callback(source.close)
        self.closing.callback(target.close)

    def start_worker(self, port: int, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        """Starts the worker, which the demo stops, and waits until its REST interface answers at this port."""
        worker = WorkerProcess(self.directory / "connect.properties", self.log, dict(environment))
        self._worker = self.closing.enter_context(worker)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", auth=(REST_USER, REST_PASSWORD), timeout=30)
        self._rest = self.closing.enter_context(client)

        def answers() -> bool:
            worker.check_alive()
            with contextlib.suppress(httpx.TransportError):
                return client.head("/").status_code == httpx.codes.OK
            return False

        self.screen.wait("the worker is starting", answers, PATIENCE_S)
        self.screen.say(f"REST answers at {self.url}")

    def prove(self, text: str, true: bool) -> None:
        """Adds a claim. All are shown together at the end."""
        self.claims.append(Claim(text, true))


def run_script(stage: Stage, what: str, command: list[str | Path], environment: dict[str, str]) -> list[str]:
    """Runs a program to its end, and returns its lines. RuntimeError with the last line if it fails."""
    output = stage.directory / "script.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            # Ctrl-C must reach only the demo, which ends all that it started.
            start_new_session=True,
        )
    try:
        stage.screen.wait(what, lambda: process.poll() is not None, PATIENCE_S)
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
        process.wait()
    lines = output.read_text(errors="replace").splitlines()
    if process.returncode:
        last = lines[-1] if lines else "it printed nothing"
        raise RuntimeError(f"{Path(command[-1]).name} failed with exit code {process.returncode}: {last}")
    return lines


def kill_tree(pid: int) -> None:
    """Kills a process and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        root.suspend()  # so that it can't start another child meanwhile
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@dataclass(frozen=True)
class Step(Generic[S]):
    """One part of a demo: its headline and what it does."""

    title: str
    run: Callable[[S], None]


@dataclass(frozen=True)
class Play(Generic[S]):
    """A whole demo. `look_around`: for whoever stays after the last step, until Ctrl-C. `tools`: programs that it needs."""

    stage: Callable[[Screen, Path, contextlib.ExitStack], S]
    steps: Sequence[Step[S]]
    look_around: Callable[[S], None]
    tools: Sequence[str] = ()


def _there(value: T | None) -> T:
    if value is None:
        raise RuntimeError("a step of the demo runs too early")
    return value
