"""The programs of `make demo` and `make demo-cluster`, whole: what they show and prove, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.paths import ROOT
from tests.waiting import wait_for_state

# The worker hands its Spark application only a part of its environment: names that begin so are in it.
MARK: Final = "SPARK_MIRROR_CONNECT_DEMO_TEST"
# Two start at once, on a machine that may be small and have other work: a limit for what is stuck.
DEMO_S: Final = 500.0
pytestmark = [pytest.mark.brokers, pytest.mark.spark]


class Demo:
    """One run of the demo in a session of its own. `terminal`: its output is a terminal, else a file.

    `clone`: `make demo` in that folder, instead of the program itself in this one. `play`: arguments for another demo.
    """

    def __init__(self, directory: Path, *, terminal: bool, clone: Path | None = None, play: Sequence[str] = ()) -> None:
        self.mark = uuid.uuid4().hex
        self.scratch = directory / f"tmp-{self.mark[:8]}"
        self.scratch.mkdir()
        self._file = directory / f"{self.mark}.txt"
        self._terminal: int | None = None
        self._text = b""
        # Everything that it starts inherits the mark, and the directory to put its scratch files in.
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.scratch), "TERM": "xterm"}
        environment.pop("DEMO_EXIT", None)
        command = [sys.executable, "-m", "deploy.demo", *play]
        if clone is not None:
            command = ["make", "--silent", "demo", f"PYTHON={sys.executable}"]
        folder = clone or ROOT
        if terminal:
            self._terminal, other = pty.openpty()
            # setsid --ctty: closing the terminal then hangs up, as it does for a person's shell.
            command = ["setsid", "--ctty", *command]
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=other, stdout=other, stderr=other
            )
            os.close(other)
            os.set_blocking(self._terminal, False)
        else:
            with self._file.open("wb") as file:
                self.process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def text(self) -> str:
        """All that it has said."""
        if self._terminal is None:
            return self._file.read_text()
        with contextlib.suppress(OSError):
            while chunk := os.read(self._terminal, 65_536):
                self._text += chunk
        return self._text.decode(errors="replace")

    def wait_until_it_says(self, words: str) -> None:
        def said() -> bool:
            text = self.text()
            assert self.process.poll() is None or words in text, text
            return words in text

        wait_for_state(said, f"the demo says {words!r}", DEMO_S)

    def wait_ended(self) -> int:
        def ended() -> bool:
            self.text()  # a full terminal would hold it up
            return self.process.poll() is not None

        wait_for_state(ended, "the demo has ended", DEMO_S)
        return int(self.process.returncode)

    def hang_up(self) -> None:
        """Close the terminal's window."""
        assert self._terminal is not None
        os.close(self._terminal)
        self._terminal = None
        self._file.touch()

    def alive(self) -> list[psutil.Process]:
        """Every process that it started, wherever it went."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()
                # Spark's workers and executors have a short environment, and a directory of the demo.
                ours = environment.get(MARK) == self.mark or environment.get("TMPDIR", "").startswith(
                    f"{self.scratch}/"
                )
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def close(self) -> None:
        for process in self.alive():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(180)
        if self._terminal is not None:
            os.close(self._terminal)


@contextlib.contextmanager
def _demo(directory: Path, *, terminal: bool, clone: Path | None = None, play: Sequence[str] = ()) -> Iterator[Demo]:
    demo = Demo(directory, terminal=terminal, clone=clone, play=play)
    try:
        yield demo
    finally:
        demo.close()


def _clone(folder: Path) -> Path:
    """What git would give, in a folder of its own; what `make setup` downloads it finds done, its install is its own."""
    asked = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this folder is no git repository: what belongs to it can't be told")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():  # deleted files are listed until that is committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".cache").symlink_to(ROOT / ".cache")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    # A path in a .pth file gives what is installed there, without the links to this folder that lie beside it.
    packages = sysconfig.get_path("purelib", vars={"base": str(folder / ".venv")})
    (Path(packages) / "downloaded.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for stamp in (".created", ".dependencies"):
        (folder / ".venv" / stamp).touch()
    return folder


def _left(demo: Demo) -> list[str]:
    """Processes and scratch directories that are there, once everything had a moment to go."""
    until = time.monotonic() + 180
    while True:
        directories = [path.name for path in demo.scratch.iterdir() if "-ports-" not in path.name]
        left = [str(process) for process in demo.alive()] + directories
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


COPY: Final = ["count:", "loss:", "order:", "keys:", "values:", "headers:", "timestamps:"]
GROUP: Final = ["group:", "failover:", "checkpoints:", "heartbeats:", "change:"]
WORKER: Final = ["state:", "state:", "state:", "REST:", "secrets:"]
ALL: Final = [*COPY, *GROUP, *WORKER, "end:"]
ON_EXECUTORS: Final = ["placement:", "kill:", *COPY, "end:"]


def _proves_all_it_shows(demo: Demo, claims: Sequence[str] = ALL) -> None:
    assert demo.wait_ended() == 0, demo.text()
    text = demo.text()
    marks = [line.split()[1] for line in text.splitlines() if line.startswith("  ✔ ")]
    assert marks == list(claims), text
    assert "✘" not in text
    assert "curl" not in text  # nothing is invited to look at what is gone
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert _left(demo) == []


def test_without_a_terminal_it_proves_all_it_shows_ends_and_leaves_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path, terminal=False) as demo:
        _proves_all_it_shows(demo)


@pytest.mark.long
def test_on_a_spark_cluster_it_proves_all_it_shows_ends_and_leaves_nothing(tmp_path: Path) -> None:
    with _demo(tmp_path, terminal=False, play=("cluster",)) as demo:
        _proves_all_it_shows(demo, ON_EXECUTORS)


@pytest.mark.long
def test_a_signal_ends_it_on_a_spark_cluster_and_nothing_is_left(tmp_path: Path) -> None:
    with _demo(tmp_path, terminal=True, play=("cluster",)) as demo:
        demo.wait_until_it_says("kill -9 of executor")
        demo.process.send_signal(signal.SIGTERM)
        assert demo.wait_ended() == 128 + signal.SIGTERM, demo.text()
        assert _left(demo) == []


@pytest.mark.long
def test_two_at_once_one_of_a_new_clone_leave_nothing_even_if_a_terminal_is_closed(tmp_path: Path) -> None:
    clone = _clone(tmp_path / "clone")
    with _demo(tmp_path, terminal=False, clone=clone) as demo, _demo(tmp_path, terminal=True) as staying:
        _proves_all_it_shows(demo)
        assert (clone / ".venv" / ".project").exists()  # make installed this clone, and the demo ran what it installed
        # It would not stay if anything were not true.
        staying.wait_until_it_says("until Ctrl-C")
        staying.hang_up()
        staying.wait_ended()
        assert _left(staying) == []


# Without a terminal it shows the same and ends.
@pytest.mark.long
def test_on_a_terminal_it_stays_and_every_command_it_prints_works(tmp_path: Path) -> None:
    with _demo(tmp_path, terminal=True) as demo:
        demo.wait_until_it_says("until Ctrl-C")
        demo.wait_until_it_says("3 written, ")
        text = re.sub(r"\x1b\[[0-9;]*[mK]", "", demo.text()).replace("\r\n", "\n")
        commands = re.findall(r"^  curl (?:.*\\\n)?.*$", text, re.MULTILINE)
        assert len(commands) >= 4
        for command in commands:
            pasted = command.replace("curl", "curl --silent --show-error --fail-with-body", 1)
            done = subprocess.run(["bash", "-c", pasted], capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        # Itself, what ends it if it is killed, two brokers, the worker, Spark's driver, JVM, daemon and three tasks.
        assert len(demo.alive()) >= 11
        demo.process.send_signal(signal.SIGINT)
        assert demo.wait_ended() == 0
        assert _left(demo) == []


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param("1/8", signal.SIGINT, id="ctrl_c_at_once"),
        pytest.param(
            "kafka-2 are starting", signal.SIGTERM, id="sigterm_while_the_clusters_start", marks=pytest.mark.long
        ),
        pytest.param("2/8", signal.SIGHUP, id="sighup_while_the_worker_starts", marks=pytest.mark.long),
        pytest.param("3/8", signal.SIGINT, id="ctrl_c_while_the_script_runs", marks=pytest.mark.long),
        pytest.param("Spark is starting", signal.SIGKILL, id="sigkill_while_spark_starts", marks=pytest.mark.long),
        pytest.param("and commits:", signal.SIGTERM, id="sigterm_while_the_group_moves", marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_it_at_any_moment_and_nothing_is_left(tmp_path: Path, words: str, number: int) -> None:
    with _demo(tmp_path, terminal=True) as demo:
        demo.wait_until_it_says(words)
        demo.process.send_signal(number)
        code = demo.wait_ended()
        assert code == (-number if number == signal.SIGKILL else 128 + number), demo.text()
        assert "Traceback" not in demo.text()
        assert _left(demo) == []


@pytest.mark.long
def test_a_terminal_closed_while_tasks_start_ends_it_and_nothing_is_left(tmp_path: Path) -> None:
    with _demo(tmp_path, terminal=True) as demo:
        demo.wait_until_it_says("Spark is up")
        demo.hang_up()
        demo.wait_ended()
        assert _left(demo) == []
