"""`make test`: pytest with the gate (tests/gate.py).

What is red, and stays so: every failed assertion, every error, every limit of a test's whole time. A record that is lost,
repeated, out of order or at a wrong position in one run of five is a fault in each of them; no second run makes up for it.

What is tried once more: a test of which nothing but a wait ran out, and not one for records (WaitTimedOut and NotInTime,
by type, never by text), if nothing else failed, in three files at most. Of two tries side by side both have to pass. The
closing lines name and count these, and skips; where CI is set a skip is a failure. docs/testing.md says more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# If it is set, the file that gets what each file of tests costs (tests/costs.py).
COSTS: Final = "TESTS_COSTS"
# Three files of tests at a time, as half of what they do is to wait: tests/order.py says which. At the end the slowest are
# named.
THREE_AT_ONCE: Final = (
    "-p",
    "tests.order",
    "--numprocesses=3",
    "--dist=loadfile",
    "--no-loadscope-reorder",
    "--durations=15",
    "--slowest-files=15",
)


def main(arguments: list[str]) -> int:
    """Pytest's exit code: 0 also when waits that ran out came true in the second try."""
    # A shell starts what it runs in the background deaf to Ctrl-C, and so is all below it; tests press Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where no bytecode may be written, each of the processes would compile all tests anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    file = environment.get(COSTS)
    costs = ("-p", "tests.costs", f"--costs={file}") if file else ()
    plugins = ("-p", "tests.gate", "--waits-again", *costs)
    command = [sys.executable, "-m", "pytest", *plugins, *(arguments or THREE_AT_ONCE)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
