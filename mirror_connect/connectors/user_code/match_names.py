"""A process of its own for one thing: a user's expression is matched against names, and nobody waits for it.

Run as a script by `bounded_match.py`, with the standard library alone. Reads one JSON line `{"pattern", "flags", "names"}`
and answers a byte for each name, `1` or `0`, as soon as it is known. The kernel ends it when a name or all of them take too
long: also if the process that started it is gone, and at a place where Python would hear no signal.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from typing import Final

# Seconds of processor time: a machine that sleeps, or is busy with other things, makes no expression a slow one.
NAME_S: Final = 1.0
ALL_S: Final = 20
MEMORY: Final = 1 << 30


def main() -> None:
    """Judges the names of standard input."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (ALL_S, ALL_S + 1))
    job = json.loads(sys.stdin.buffer.readline())
    pattern = re.compile(job["pattern"], job["flags"])
    for name in job["names"]:
        # Without a handler SIGPROF ends the process.
        signal.setitimer(signal.ITIMER_PROF, NAME_S)
        matched = pattern.fullmatch(name) is not None
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write("1" if matched else "0")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
