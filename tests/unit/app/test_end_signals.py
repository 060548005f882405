"""A process that was asked to end does so, also if its event loop never hears of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import asyncio, re, sys, threading, uvloop
from mirror_connect.app.end_signals import end_on_signals

def waits_for_ever():
    threading.Event().wait()

def computes_for_ever():
    while True:
        pass

def keeps_the_interpreter_for_ever():
    # In another thread: in the main one a regular expression lets signals through.
    threading.Thread(target=re.match, args=("(a+)+$", "a" * 64 + "b")).start()

async def run():
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    end_on_signals(ON_SIGNAL, PATIENCE_S)
    print("ready", flush=True)
    IN_LOOP
    await asked.wait()

asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())
sys.exit(7)
"""


def ended(on_signal: str, in_loop: str, number: int = signal.SIGTERM, patience_s: float = 0.5) -> tuple[int, str]:
    """Exit code and standard error of a process that got the signal; TimeoutExpired when it lives on."""
    program = PROGRAM.replace("ON_SIGNAL", on_signal).replace("IN_LOOP", in_loop).replace("PATIENCE_S", str(patience_s))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            return process.wait(120), process.communicate()[1]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_loop_is_asked_to_end(number: int) -> None:
    assert ended("asked.set", "pass", number, 25) == (7, "")


EARLY: Final = """
import os, signal
from mirror_connect.app.end_signals import keep_signals
keep_signals()
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_signal_before_there_is_a_loop_is_kept_for_it() -> None:
    program = EARLY + PROGRAM.replace("ON_SIGNAL", "asked.set").replace("IN_LOOP", "pass").replace("PATIENCE_S", "25")
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 7


@pytest.mark.parametrize("stuck", ["waits_for_ever", "computes_for_ever"])
def test_a_process_whose_loop_hangs_ends_and_tells_where_it_hung(stuck: str) -> None:
    code, said = ended("asked.set", f"loop.call_soon({stuck})")
    assert (code, stuck in said) == (1, True), said


def test_a_process_ends_although_one_thread_keeps_the_interpreter_while_it_ends() -> None:
    code, said = ended("keeps_the_interpreter_for_ever", "pass")
    assert (code, "re/__init__.py" in said) == (1, True), said
