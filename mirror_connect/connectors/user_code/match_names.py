"""Matches a user's expression against names in a separate process, because it may take for ever.

`bounded_match.py` runs it as a script, with the standard library alone. It reads one JSON line `{"pattern", "flags",
"names"}` and writes a byte for each name, `1` or `0`, as soon as it is known. The kernel ends it when one name or all take
too long, also if its parent is gone, and where Python would handle no signal.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from typing import Final

# Seconds of CPU time: on a machine that sleeps or is busy, an expression is not slower.
NAME_S: Final = 1.0
ALL_S: Final = 20
MEMORY: Final = 1 << 30


def main() -> None:
    """Matches the names from standard input."""
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
