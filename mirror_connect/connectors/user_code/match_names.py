"""Matches a user's expression against names in a separate process, because it may take for ever.

`bounded_match.py` runs it as a script, with the standard library alone. It reads one JSON line `{"pattern", "flags",
"names"}` and writes a line for each name, `true` or `false`, as soon as it is known. With `"parts"`, those of a replacement,
a line is the new name, or null if the name does not match. The kernel ends it when one name or all take too long, also if
its parent is gone, and where Python would handle no signal.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Final

# Seconds of CPU time: on a machine that sleeps or is busy, an expression is not slower.
NAME_S: Final = 1.0
ALL_S: Final = 20
MEMORY: Final = 1 << 30
# Names that double with each replacement would fill the memory. No topic's is nearly as long.
MOST_CHARACTERS: Final = 10_000

# Of a replacement: text, or the number of a group.
Part = str | int


def replaced(pattern: re.Pattern[str], parts: Sequence[Part], name: str) -> str | None:
    """The name as Java's RegexRouter replaces it; None if the pattern does not match the whole of it.

    OverflowError above MOST_CHARACTERS.
    """
    if pattern.fullmatch(name) is None:
        return None
    # Not the match of the whole: Java looks again for the first one, so `a|ab` of `ab` is its `a`.
    found = pattern.search(name)
    assert found is not None
    new = [name[: found.start()]]
    length = len(name)
    for part in parts:
        new.append(part if isinstance(part, str) else found[part] or "")
        length += len(new[-1])
        if length > MOST_CHARACTERS:
            raise OverflowError
    return "".join((*new, name[found.end() :]))


def main() -> None:
    """Matches the names from standard input."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (ALL_S, ALL_S + 1))
    job = json.loads(sys.stdin.buffer.readline())
    pattern, parts = re.compile(job["pattern"], job["flags"]), job.get("parts")
    for name in job["names"]:
        # Without a handler SIGPROF ends the process.
        signal.setitimer(signal.ITIMER_PROF, NAME_S)
        answer = pattern.fullmatch(name) is not None if parts is None else replaced(pattern, parts, name)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
