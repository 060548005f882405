"""The archives of Java's classes for Kafka's programs: a make that is ended leaves no half of one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for_state

# In the place of the clusters that write the archives, which take ten seconds.
PROGRAM = """
import sys, time
from pathlib import Path
from deploy.local import class_archive as it
it.class_archive = lambda program, _: Path(sys.argv[1], f"{program}.jsa")
it.LocalCluster = lambda *_, **__: (Path(sys.argv[2]).touch(), time.sleep(60))
it.make_archives()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_ended_process_leaves_nothing(tmp_path: Path, number: int) -> None:
    jars, begun = tmp_path / "jars", tmp_path / "begun"
    jars.mkdir()
    arguments = [sys.executable, "-c", PROGRAM, str(jars), str(begun)]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        wait_for_state(begun.exists, "it has begun")
        process.send_signal(number)
        process.wait(30)
    # By its watchdog, a moment later.
    wait_for_state(lambda: not any(jars.iterdir()), "nothing is left")
