"""What Kubernetes runs before it ends an executor's pod: its executor is told, and nobody else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from deploy.docker.spark_executor import MAIN_CLASS
from tests.paths import ROOT

SCRIPT: Final = ROOT / "deploy" / "docker" / "decommission.sh"
# An executor in short: it says that it listens, and ends some time after the signal that decommissions it.
_EXECUTOR: Final = """
import signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPWR])
print("listens", flush=True)
signal.sigwait([signal.SIGPWR])
time.sleep(0.5)
"""


def _executor(pod: str) -> subprocess.Popen[str]:
    options = ["--executor-id", "3", "--podName", pod]
    started = subprocess.Popen(
        [sys.executable, "-c", _EXECUTOR, MAIN_CLASS, *options], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "listens\n"
    return started


def test_the_executor_of_this_pod_ends_before_the_script_does(tmp_path: Path) -> None:
    name = f"mirror-connect-exec-{os.getpid()}"
    with _executor(name) as executor, _executor(f"{name}1") as another:
        try:
            began = time.monotonic()
            done = subprocess.run(
                [SCRIPT],
                env={"PATH": os.environ["PATH"], "SPARK_EXECUTOR_POD_NAME": name},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert time.monotonic() - began >= 0.5
            # It has ended by itself, not by the signal.
            assert executor.wait(30) == 0
            assert another.poll() is None
        finally:
            for each in (executor, another):
                if each.poll() is None:
                    each.send_signal(signal.SIGKILL)


def test_a_pod_without_an_executor_is_ended_at_once() -> None:
    environment = {"PATH": os.environ["PATH"], "SPARK_EXECUTOR_POD_NAME": f"nobody-{os.getpid()}"}
    assert subprocess.run([SCRIPT], env=environment, timeout=60, check=False).returncode == 0
