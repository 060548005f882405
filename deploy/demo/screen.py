"""The demo's output: titles of steps, progress lines while it waits, claims. Also how a wait ends early.

It has 80 columns at most. On a terminal the progress line is rewritten in place, elsewhere there is one every few seconds.
Only terminals get colours, unless NO_COLOR is set.
"""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, TextIO, TypeVar

from deploy.demo.proof import Claim

WIDTH: Final = 80
INDENT: Final = "     "
REWRITE_EVERY_S: Final = 0.25
LINE_EVERY_S: Final = 3.0
POLL_S: Final = 0.1
GIVE_UP_S: Final = 15.0
BOLD, GREEN, RED, DIM = "1", "32", "31", "2"

T = TypeVar("T")


class Stop:
    """Whether the demo must end. A signal handler sets it, so it is no threading.Event, whose lock might deadlock."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def request(self, number: int) -> None:
        """Requests the end because of this signal. The first one counts."""
        if self.signal is None:
            self.signal = number


class Stopped(Exception):
    """The demo must end: a signal came, or nobody reads its output any more."""


class Screen:
    """The output of the demo. When `stop` is requested, the present wait raises Stopped."""

    def __init__(
        self, stop: Stop, *, output: TextIO | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.stop = stop
        self._output = output or sys.stdout
        self.terminal = self._output.isatty()
        capable = self.terminal and environment.get("TERM") != "dumb"
        self._rewrites = capable
        self._colours = capable and not environment.get("NO_COLOR")
        self._started = time.monotonic()
        self._rewritten = False

    # Lines.

    def title(self, text: str) -> None:
        """The headline of a step."""
        self._write(f"\n{self._coloured(text[:WIDTH], BOLD)}\n")

    def say(self, text: str) -> None:
        """A line about what happened, with the seconds since the start. Long ones are wrapped."""
        self._write(
            "".join(f"{INDENT}{line}\n" for line in _wrapped(f"{self._seconds()} {text}", WIDTH - len(INDENT), 8))
        )

    def quote(self, text: str) -> None:
        """A line of another program, cut to the width."""
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        self._write(f"{INDENT}{self._coloured(_cut(f'| {shown}', WIDTH - len(INDENT)), DIM)}\n")

    def plain(self, text: str = "") -> None:
        """A line as it is, to copy and paste."""
        self._write(f"{text}\n")

    def claim(self, claim: Claim) -> None:
        """✔ or ✘, and what was compared."""
        mark, colour = ("✔", GREEN) if claim.true else ("✘", RED)
        first, *rest = _wrapped(claim.text, WIDTH - 4, 0)
        self._write(f"  {self._coloured(mark, colour)} {first}\n" + "".join(f"    {line}\n" for line in rest))

    # Waits.

    def wait(
        self, what: str | Callable[[], str], until: Callable[[], T | None], patience_s: float, *, poll_s: float = POLL_S
    ) -> T:
        """The first value of `until` that is neither None nor False, with a progress line until it is there.

        Raises Stopped, and RuntimeError naming `what` when the patience is over.
        """
        began = lined = time.monotonic()
        drawn = 0.0
        while True:
            value = until()
            if value is not None and value is not False:
                self._clear()
                return value
            now = time.monotonic()
            text = what() if callable(what) else what
            if now - began > patience_s:
                raise RuntimeError(f"not within {patience_s:g} s: {text}")
            if self._rewrites and now - drawn >= REWRITE_EVERY_S:
                drawn = now
                self._redraw(f"{text} … {now - began:.0f} s")
            elif not self._rewrites and now - lined >= LINE_EVERY_S:
                lined = now
                self.say(f"{text} … {now - began:.0f} s")
            if self.stop.signal is not None:
                self._clear()
                raise Stopped
            time.sleep(poll_s)

    def wait_for(self, what: str, action: Callable[[], T], patience_s: float, give_up: Callable[[], None]) -> T:
        """Runs a blocking action in a thread. `give_up` is called to end it early."""
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(action())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                future.set_exception(error)

        thread = threading.Thread(target=work, name=what, daemon=True)
        thread.start()
        try:
            self.wait(what, future.done, patience_s)
        except BaseException:
            give_up()
            thread.join(GIVE_UP_S)
            raise
        return future.result()

    # Writing.

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started:5.1f} s"

    def _coloured(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text

    def _redraw(self, text: str) -> None:
        # A line that fills the last column wraps on some terminals, and could not be rewritten.
        line = _cut(f"{INDENT}{self._seconds()} {text}", WIDTH - 1)
        self._put(f"\r{self._coloured(line, DIM)}\x1b[K")
        self._rewritten = True

    def _clear(self) -> None:
        if self._rewritten:
            self._rewritten = False
            self._put("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._clear()
        self._put(text)

    def _put(self, text: str) -> None:
        try:
            self._output.write(text)
            self._output.flush()
        except OSError:
            # The terminal was closed, or the reader of a pipe has gone: the demo ends. The descriptor gets /dev/null,
            # because the interpreter would fail at its end with what is still buffered.
            self.stop.request(signal.SIGHUP)
            if self._output is sys.stdout:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(text: str, width: int, hanging: int) -> list[str]:
    # Long addresses and paths stay whole, so that they can be copied.
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False
    ) or [""]
