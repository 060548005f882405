"""The demo's lines on a terminal, in a file, and when nobody reads them any more."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Mapping

import pytest

from deploy.demo.finale import curl
from deploy.demo.proof import Claim
from deploy.demo.screen import Screen, Stop, Stopped

LONG = "word " * 60


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def _after(calls: int) -> Callable[[], bool]:
    """False `calls` times, then true."""
    left = [calls]

    def condition() -> bool:
        left[0] -= 1
        return left[0] < 0

    return condition


def _all_kinds(output: io.StringIO, environment: Mapping[str, str]) -> str:
    screen = Screen(Stop(), output=output, environment=environment)
    screen.title("A step")
    screen.say(LONG)
    screen.quote(LONG)
    screen.claim(Claim(LONG, true=True))
    screen.wait(LONG, _after(1), 5, poll_s=0.01)
    return output.getvalue()


def test_no_line_is_wider_than_80_columns() -> None:
    assert [line for line in _all_kinds(io.StringIO(), {}).splitlines() if len(line) > 80] == []


def test_a_file_gets_no_escape_codes() -> None:
    assert "\x1b" not in _all_kinds(io.StringIO(), {})


def test_a_terminal_gets_colours() -> None:
    assert "\x1b[32m✔" in _all_kinds(_Terminal(), {"TERM": "xterm"})


def test_no_color_takes_the_colours_and_leaves_the_rewritten_line() -> None:
    written = _all_kinds(_Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert written.replace("\x1b[K", "").count("\x1b") == 0
    assert "\r\x1b[K" in written


def test_a_dumb_terminal_gets_no_escape_codes() -> None:
    assert "\x1b" not in _all_kinds(_Terminal(), {"TERM": "dumb"})


def test_a_progress_line_is_gone_before_the_next_line() -> None:
    output = _Terminal()
    screen = Screen(Stop(), output=output, environment={"TERM": "xterm", "NO_COLOR": "1"})
    screen.wait("waiting", _after(1), 5, poll_s=0.01)
    screen.plain("next")
    assert output.getvalue().rpartition("\r\x1b[K")[2] == "next\n"


def test_control_characters_of_quoted_text_do_not_reach_the_terminal() -> None:
    output = io.StringIO()
    Screen(Stop(), output=output).quote("a\x1b[31m\fb\tc")
    assert output.getvalue().rstrip("\n").isprintable()


def test_a_wait_ends_with_the_stop() -> None:
    stop = Stop()
    stop.request(signal.SIGINT)
    with pytest.raises(Stopped):
        Screen(stop, output=io.StringIO()).wait("for ever", lambda: False, 60)


def test_a_wait_that_takes_too_long_names_what_it_waited_for() -> None:
    with pytest.raises(RuntimeError, match=r"not within 0.01 s: the moon"):
        Screen(Stop(), output=io.StringIO()).wait("the moon", lambda: False, 0.01, poll_s=0.02)


def test_blocking_work_is_given_up_when_the_demo_stops() -> None:
    stop, given_up = Stop(), threading.Event()
    stop.request(signal.SIGTERM)
    with pytest.raises(Stopped):
        Screen(stop, output=io.StringIO()).wait_for("work", lambda: given_up.wait(30), 60, given_up.set)
    assert given_up.is_set()


def test_an_error_of_blocking_work_is_raised_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Screen(Stop(), output=io.StringIO()).wait_for("work", fail, 60, lambda: None)


def test_a_reader_that_has_gone_stops_the_demo() -> None:
    stop = Stop()
    Screen(stop, output=_Closed()).say("anybody there?")
    assert stop.signal == signal.SIGHUP


@pytest.mark.parametrize("path", ["/", "/connectors/mirror-checkpoint-connector/offsets"])
def test_a_command_to_paste_fits_and_keeps_its_url_whole(path: str) -> None:
    url = f"http://127.0.0.1:31999{path}"
    command = curl(url, "-X PUT")
    assert all(len(line) < 80 for line in command.splitlines())
    assert command.replace("\\\n", "").split()[-1] == url
