"""Executors are found among processes, and killed and suspended whole; nothing of a session outlives who guards it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from deploy.local.spark_executor import BACKEND, Executor, resume, session_of
from tests.paths import ROOT
from tests.waiting import wait_for_state

# Starts two levels of processes, as the JVM its daemon and this one the processes of tasks.
_TREE: Final = """
import subprocess, sys, time
depth = int(sys.argv[1])
if depth:
    for _ in range(depth):
        subprocess.Popen([sys.executable, __file__, str(depth - 1)])
time.sleep(60)
"""
# Guards a session whose leader has ended, leaving a process that is suspended, and dies.
_GUARD: Final = """
import os, signal, subprocess, sys, time
from deploy.local.watchdog import watchdog
tree = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
leader = subprocess.Popen([sys.executable, "-c", tree], stdout=subprocess.PIPE, text=True, start_new_session=True)
child = int(leader.stdout.readline())
watchdog().guard_session(leader.pid)
os.kill(child, signal.SIGSTOP)
leader.kill()
leader.wait()
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that starts others and waits."""
    path = tmp_path / "tree.py"
    path.write_text(_TREE)
    return path


@pytest.fixture
def executor(program: Path) -> Iterator[Executor]:
    """A process that looks like an executor: two daemons with a task each."""
    options = [
        "--driver-url",
        "spark://CoarseGrainedScheduler@host:4711",
        "--executor-id",
        "7",
        "--hostname",
        "h",
        "--app-id",
        "app-1",
    ]
    process = subprocess.Popen([sys.executable, program, "2", BACKEND, *options])
    found: Executor | None = None
    try:
        # Until it has begun its program, its command line is pytest's.
        executor = found = wait_for_state(
            lambda: Executor.of("worker-1", psutil.Process(process.pid)), "the executor is seen"
        )
        wait_for_state(lambda: len(executor.tree()) == 5, "all processes are there")
        yield executor
    finally:
        process.kill() if found is None else found.kill()
        process.wait()


def _states(executor: Executor) -> set[str]:
    return {process.status() for process in executor.tree()}


def test_an_executor_has_the_ids_of_its_command_line(executor: Executor) -> None:
    assert (executor.worker, executor.id, executor.application, executor.driver) == ("worker-1", "7", "app-1", 4711)
    assert len(executor.daemons()) == len(executor.tasks()) == 2
    assert executor.tree()[0] == executor.process
    assert {*executor.tree()[1:]} == {*executor.daemons(), *executor.tasks()}


def test_another_program_is_no_executor() -> None:
    assert Executor.of("worker-1", psutil.Process()) is None


def test_a_suspended_executor_does_nothing_until_it_is_resumed(executor: Executor) -> None:
    assert executor.suspend() == executor.tree()
    wait_for_state(lambda: _states(executor) == {psutil.STATUS_STOPPED}, "all are suspended")
    executor.resume()
    wait_for_state(lambda: psutil.STATUS_STOPPED not in _states(executor), "none is suspended")


def test_what_was_suspended_wakes_also_when_the_jvm_was_killed_meanwhile(executor: Executor) -> None:
    jvm, *others = executor.suspend()
    wait_for_state(lambda: _states(executor) == {psutil.STATUS_STOPPED}, "all are suspended")
    executor.kill_jvm()
    wait_for_state(lambda: not executor.alive, "the JVM has ended")
    assert {each.status() for each in others} == {psutil.STATUS_STOPPED}
    try:
        assert resume([jvm, *others]) == others
        wait_for_state(lambda: psutil.STATUS_STOPPED not in {each.status() for each in others}, "none is suspended")
    finally:
        for each in others:
            each.kill()


@pytest.mark.parametrize("suspended", [False, True], ids=["running", "suspended"])
def test_of_a_killed_executor_no_process_is_left(executor: Executor, suspended: bool) -> None:
    tree = executor.suspend() if suspended else executor.tree()
    executor.kill()
    assert not executor.alive
    assert [each for each in tree if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []


def test_of_an_executor_the_jvm_can_be_killed_alone(executor: Executor) -> None:
    daemons = executor.daemons()
    executor.kill_jvm()
    wait_for_state(lambda: not executor.alive, "the JVM is gone")
    assert len([each for each in daemons if each.is_running()]) == 2
    for each in daemons:
        for process in (*each.children(), each):
            process.kill()


def test_a_session_has_also_whose_parent_has_ended(program: Path) -> None:
    process = subprocess.Popen([sys.executable, program, "2"], start_new_session=True)
    wait_for_state(lambda: len(list(session_of(process.pid))) == 5, "all processes are there")
    process.kill()
    process.wait()
    left = list(session_of(process.pid))
    assert len(left) == 4
    for each in left:
        each.kill()
    psutil.wait_procs(left, 10)


def test_nothing_of_a_guarded_session_outlives_a_kill_of_who_guards_it() -> None:
    guard = subprocess.run([sys.executable, "-c", _GUARD], capture_output=True, text=True, cwd=ROOT, check=False)
    assert guard.returncode < 0, guard.stderr
    orphan = int(guard.stdout)
    wait_for_state(lambda: not psutil.pid_exists(orphan), "the suspended process is gone", 20)
