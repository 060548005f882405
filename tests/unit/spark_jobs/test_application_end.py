"""The end of the Spark application when its worker is gone, at the moment when its JVM is only just coming up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from mirror_connect.app.supervisor.spark_log import SparkLog

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


# Its thread that receives accumulators fails when the JVM is gone. It prints a line of dashes, and its end after that.
DASHES = """
import logging, sys
from mirror_connect.spark_jobs.log_levels import log_to_standard_error

log_to_standard_error(logging.INFO)
print("EOFError", file=sys.stderr)
print("-" * 40, end="", file=sys.stderr)
logging.getLogger("mirror_connect.spark_jobs").critical("its JVM was ended by signal 9 (SIGKILL)")
print(file=sys.stderr)
"""


def test_the_reason_for_the_end_is_read_also_where_another_thread_has_begun_a_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-u", "-c", DASHES], capture_output=True, text=True, timeout=120, check=True
    )
    log = SparkLog()
    for line in ended.stderr.splitlines():
        log.take(line)
    assert log.last_words == "its JVM was ended by signal 9 (SIGKILL)"
