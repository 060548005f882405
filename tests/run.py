"""`make test`: pytest, and what failed between real brokers once more.

Those tests wait for processes on a machine that others may use; one that another process was in the way of says nothing
of the product. So few failures among them are tried again, alone; what fails twice is a failure, and what needed the
second try is named either way. Tests of pure logic get one try, and so do many failures at once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# Two files of tests at a time: most of their time is waiting for processes. The slowest ones are named at the end.
TWO_AT_ONCE: Final = ("--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder", "--durations=15")
LAST_FAILED: Final = ROOT / ".pytest_cache/v/cache/lastfailed"
WITH_BROKERS: Final = ("tests/contract/", "tests/e2e/", "tests/integration/", "tests/spark/")
# More than these are no accident.
MOST: Final = 3
TESTS_FAILED: Final = 1


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


def deserve_another_try(failed: list[str]) -> bool:
    """Whether these tests, by their node ids, are few and all between real brokers."""
    return 0 < len(failed) <= MOST and all(name.startswith(WITH_BROKERS) for name in failed)


def main(arguments: list[str]) -> int:
    """Pytest's exit code, of the second try if there was one."""
    # A shell starts what it runs in the background deaf to Ctrl-C, and so is all below it; tests press Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    LAST_FAILED.unlink(missing_ok=True)
    code = _pytest(*(arguments or TWO_AT_ONCE))
    if code != TESTS_FAILED:
        return code
    failed = list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not deserve_another_try(failed):
        return code
    print("\nFailed between real brokers, tried once more: " + ", ".join(failed), flush=True)
    return _pytest(*failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
