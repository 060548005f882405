"""`--watch` in a real pseudo-terminal: live pictures, keys, a new size, a worker that goes away, a terminal put back."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mirror_connect.cli.rest.listings import View
from mirror_connect.cli.rest.watching import _Asking
from tests.fakes.links_worker import LinksWorker, lag, link, topic
from tests.waiting import WaitTimedOut

FULL_SCREEN: Final = "\x1b[?1049h"
FULL_SCREEN_OVER: Final = "\x1b[?1049l"
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command in a terminal of its own. `seen`: all that it wrote."""

    def __init__(self, *arguments: str, home: Path, rows: int = 24, columns: int = 100) -> None:
        self._ours, theirs = os.openpty()
        self.resize(rows, columns, tell=False)
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            # Ctrl-C is for the foreground process of the terminal that it belongs to.
            ["setsid", "--ctty", sys.executable, "-m", "mirror_connect.cli", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # Without a size that is fixed.
            env={
                **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
                "HOME": str(home),
                "TERM": "xterm-256color",
            },
        )
        self._theirs = theirs
        self.seen = ""

    def resize(self, rows: int, columns: int, *, tell: bool = True) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def shows(self, *texts: str, seconds: float = 60.0) -> str:
        """Waits until a picture that begins from now on has all of these; without escapes."""
        begun, until = len(self.seen), time.monotonic() + seconds
        while time.monotonic() < until:
            self._read(0.1)
            for picture in self.seen[begun:].split("\x1b[H")[::-1]:
                plain = _ESCAPE.sub("", picture)
                if all(each in plain for each in texts):
                    return plain
        raise WaitTimedOut(f"not within {seconds:g} s: {texts}; it wrote {self.seen[-3000:]!r}")

    def ends(self, seconds: float = 60.0) -> int:
        """Waits for its end; the exit code."""
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > until:
                raise WaitTimedOut(f"not within {seconds:g} s: the command has ended; it wrote {self.seen[-3000:]!r}")
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    @property
    def now(self) -> list[object]:
        """The terminal's settings."""
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            self.seen += os.read(self._ours, 65536).decode(errors="replace")
            seconds = 0.0


@pytest.fixture
def watched(linked: LinksWorker, home: Path) -> Iterator[tuple[LinksWorker, Terminal]]:
    """`links --watch`, at most once in a tenth of a second."""
    linked.links = [link(lag=lag(10, 1.0, 1))]
    terminal = Terminal("links", "--watch", "--interval", "0.1", "--worker", linked.url, home=home)
    yield linked, terminal
    terminal.close()


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "ctrl_c"])
def test_it_is_live_until_a_key_ends_it_and_leaves_the_terminal_as_it_was(
    watched: tuple[LinksWorker, Terminal], key: str
) -> None:
    worker, terminal = watched
    picture = terminal.shows("A->B", "RUNNING", "every 0.1 s", "q ends")
    assert f"mirror-connect links  {worker.url}" in picture
    worker.links = [link(state="FAILED", lag=lag(999_999, 77.0, 1))]
    terminal.shows("A->B", "FAILED", "999,999", "1 min 17 s")
    terminal.press(key)
    # The code of what was shown last.
    assert terminal.ends() == 1
    assert (terminal.seen.count(FULL_SCREEN), terminal.seen.count(FULL_SCREEN_OVER)) == (1, 1)
    assert (terminal.now == terminal.before, "Traceback" in terminal.seen) == (True, False)


def test_a_new_size_is_used_at_once(watched: tuple[LinksWorker, Terminal]) -> None:
    _, terminal = watched
    assert "1.5 MB/s" in terminal.shows("A->B")
    terminal.resize(10, 60)
    deadline = time.monotonic() + 60
    while "1.5 MB/s" in (picture := terminal.shows("A->B")):
        assert time.monotonic() < deadline, picture
    # What does not fit is left out, whole.
    assert max(len(line.rstrip()) for line in picture.splitlines()) <= 60
    terminal.press("q")
    assert terminal.ends() == 0


def test_a_worker_that_goes_away_is_told_and_what_was_known_stays(watched: tuple[LinksWorker, Terminal]) -> None:
    worker, terminal = watched
    terminal.shows("A->B", "RUNNING")
    worker.instead = (503, b'{"error_code":503,"message":"The worker is ending"}', "application/json")
    terminal.shows("since ", "503", "worker is ending", "A->B", "RUNNING")
    worker.instead = None
    worker.links = [link("C->D")]
    terminal.shows("C->D")
    worker.instead = (503, b"", "application/json")
    terminal.shows("was answered with 503")
    terminal.press("q")
    assert terminal.ends() == 1
    assert "was answered with 503" in terminal.seen.rpartition(FULL_SCREEN_OVER)[2]


def test_keys_work_while_the_worker_hangs(linked: LinksWorker, home: Path) -> None:
    linked.before_answer = lambda: time.sleep(20)
    terminal = Terminal("links", "--watch", "--worker", linked.url, home=home)
    try:
        terminal.shows("asking …")
        terminal.press("q")
        begun = time.monotonic()
        assert (terminal.ends(), time.monotonic() - begun < 15) == (0, True)
    finally:
        terminal.close()


def test_sigterm_leaves_the_full_screen(watched: tuple[LinksWorker, Terminal]) -> None:
    _, terminal = watched
    terminal.shows("A->B")
    terminal.process.terminate()
    assert (terminal.ends(), terminal.seen.count(FULL_SCREEN_OVER)) == (128 + signal.SIGTERM, 1)
    assert terminal.now == terminal.before


def test_what_does_not_fit_is_scrolled(linked: LinksWorker, home: Path) -> None:
    linked.links = [link()]
    linked.topics = {"A->B": [topic(f"t{number:02}") for number in range(50)]}
    terminal = Terminal("topics", "--watch", "--interval", "0.1", "--worker", linked.url, home=home, rows=12)
    try:
        assert "t20" not in terminal.shows("t00", "lines above")
        terminal.press("jjj")
        assert "t00" not in terminal.shows("3 lines above", "t05")
        terminal.press("\x1b[6~" * 20)
        terminal.shows("t49", "0 below")
        terminal.press("g")
        terminal.shows("t00", "0 lines above")
        terminal.press("q")
        assert terminal.ends() == 0
    finally:
        terminal.close()


def test_json_is_not_watched(linked: LinksWorker, home: Path) -> None:
    terminal = Terminal("links", "--watch", "-o", "json", "--worker", linked.url, home=home)
    try:
        assert (terminal.ends(), "--watch shows tables" in terminal.seen) == (2, True)
    finally:
        terminal.close()


def test_an_answer_that_makes_no_sense_is_told_and_asked_for_again() -> None:
    seen = []

    def ask() -> View:
        seen.append(asking.answer.failure)
        if len(seen) == 1:
            raise AttributeError("'list' object has no attribute 'get'")
        asking.ended.set()
        return View({}, [])

    asking = _Asking(ask, 0.1)
    asking.start()
    asking.join(30)
    assert [str(each) for each in seen] == ["None", "the answer is not that of a Connect worker (AttributeError)"]
    assert asking.answer.failure is None
