"""The end of the Spark application when its worker is gone, at the moment when its JVM is only just coming up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# The start fails as soon as the other thread begins to kill: so it does when PySpark loses the JVM that it waits for.
PROGRAM = """
import time
from mirror_connect.spark_jobs import __main__ as application

def start(hello):
    print("starting", flush=True)
    application._ending.wait()
    raise RuntimeError("the JVM is gone")

looks = []

def kill_the_rest():
    looks.append(1)
    time.sleep(0.5)
    print("killed", len(looks), flush=True)

application.run = start
application._kill_the_rest = kill_the_rest
application.main()
"""


def test_a_start_that_fails_while_the_rest_is_killed_does_not_cut_that_short(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    hello = {"url": "http://127.0.0.1:9", "token": "t", "scratch": str(scratch), "spark": {}}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.stdout.split("\n")[-2], ended.returncode, scratch.exists()) == ("killed 2", 0, False)
