"""`--watch`: a view on the full screen, asked for again and again, until q or Ctrl-C.

The worker is asked in a thread of its own, so that keys and a resized terminal have their effect while it doesn't answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Final, NoReturn

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from mirror_connect.cli.rest.failures import FINE, WRONG, CommandFailed, WorkerUnreachable
from mirror_connect.cli.rest.figures import plain
from mirror_connect.cli.rest.listings import View

_KEY: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)
# How long a key or a new size may wait.
_LOOK_EVERY_S: Final = 0.1
_END_KEYS: Final = (b"q", b"Q", b"\x03", b"\x04")
# Keys → lines to scroll, or screens.
_LINES: Final = {b"\x1b[A": -1, b"\x1b[B": 1, b"k": -1, b"j": 1}
_SCREENS: Final = {b"\x1b[5~": -1, b"\x1b[6~": 1, b"b": -1, b" ": 1}
_TO_THE_TOP: Final = (b"g", b"\x1b[H", b"\x1b[1~")


@dataclass(frozen=True, slots=True)
class _Answer:
    """The last view, and why the request after it failed, since when."""

    view: View | None = None
    failure: CommandFailed | None = None
    at: float = 0.0
    failing_since: float | None = None


class _Asking(threading.Thread):
    """Asks every `interval` seconds. `answer` is replaced as a whole."""

    def __init__(self, ask: Callable[[], View], interval: float) -> None:
        # A worker that hangs must not keep the command from its end.
        super().__init__(daemon=True)
        self.answer = _Answer()
        self._ask, self._interval = ask, interval
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            begun = time.monotonic()
            before = self.answer
            try:
                self.answer = _Answer(self._ask(), at=time.time())
            except Exception as error:  # noqa: BLE001 — while a worker starts, something else may answer at its address
                failure = error if isinstance(error, CommandFailed) else _not_understood(error)
                since = time.time() if before.failing_since is None else before.failing_since
                self.answer = _Answer(before.view, failure, before.at, since)
            self.ended.wait(max(0.1, self._interval - (time.monotonic() - begun)))


def _not_understood(error: Exception) -> WorkerUnreachable:
    return WorkerUnreachable(f"the answer is not that of a Connect worker ({type(error).__name__})")


@dataclass(slots=True)
class _Screen:
    """One picture. `first`: how many lines are scrolled away; it is corrected to what there is."""

    title: str
    answer: _Answer
    interval: float
    wide: bool
    first: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.size.height
        head = [_line(self._head(), width)]
        if self.answer.failure is not None:
            since = time.strftime("%H:%M:%S", time.localtime(self.answer.failing_since))
            head.append(Text(plain(f"since {since}: {self.answer.failure}"), style="bold red", overflow="fold"))
        lines = [line for each in head for line in _lines(console, options, each)]
        body = (
            []
            if self.answer.view is None
            else _lines(console, options, self.answer.view.renderable(width, wide=self.wide))
        )
        room = max(1, height - len(lines) - 2)
        self.first = max(0, min(self.first, len(body) - room))
        shown = body[self.first : self.first + room]
        below = len(body) - self.first - len(shown)
        yield from _joined([*lines, [], *shown])
        if below or self.first:
            yield Segment.line()
            yield _line(f"… {self.first} lines above, {below} below: arrow keys, page keys", width)

    def _head(self) -> str:
        at = "asking …" if not self.answer.at else time.strftime("%H:%M:%S", time.localtime(self.answer.at))
        return f"{self.title}  {at}  every {self.interval:g} s  q ends"


def watch(title: str, ask: Callable[[], View], console: Console, *, interval: float, wide: bool) -> int:
    """Shows the view until the user ends it. The exit code is that of what was last shown."""
    asking = _Asking(ask, interval)
    screen = _Screen(title, asking.answer, interval, wide)
    asking.start()
    try:
        with _keys() as keys, Live(screen, console=console, screen=True, auto_refresh=False) as live:
            shown: tuple[object, ...] = ()
            for key in keys:
                if key in _END_KEYS:
                    break
                screen.answer = asking.answer
                screen.first = _scrolled(screen.first, key, console.size.height)
                now = (screen.answer, screen.first, console.size)
                if now != shown:
                    live.refresh()
                    # The picture corrects how far it is scrolled.
                    shown = (screen.answer, screen.first, console.size)
    except KeyboardInterrupt:
        pass
    finally:
        asking.ended.set()
    if screen.answer.failure is not None:
        raise screen.answer.failure
    return WRONG if screen.answer.view is not None and screen.answer.view.wrong else FINE


def _scrolled(first: int, key: bytes, height: int) -> int:
    if key in _TO_THE_TOP:
        return 0
    return max(0, first + _LINES.get(key, 0) + _SCREENS.get(key, 0) * max(1, height - 4))


@contextlib.contextmanager
def _keys() -> Iterator[Iterable[bytes]]:
    """Keys as they are pressed, empty ones in between. The terminal is put back, also at SIGTERM and SIGHUP."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def ended(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    handlers = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(descriptor)
        yield _pressed(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _pressed(descriptor: int) -> Iterator[bytes]:
    while True:
        ready, _, _ = select.select([descriptor], [], [], _LOOK_EVERY_S)
        if not ready:
            yield b""
            continue
        pressed = os.read(descriptor, 1024)
        # The terminal has gone.
        if not pressed:
            return
        yield from _KEY.findall(pressed)


def _line(text: str, width: int) -> Text:
    line = Text(plain(text), style="reverse", no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis")
    return line


def _lines(console: Console, options: ConsoleOptions, renderable: object) -> list[list[Segment]]:
    return console.render_lines(renderable, options.update(height=None), pad=False)  # type: ignore[arg-type]


def _joined(lines: Iterable[list[Segment]]) -> Iterator[Segment]:
    for number, line in enumerate(lines):
        if number:
            yield Segment.line()
        yield from line
