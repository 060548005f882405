"""`python deploy/one_at_a_time.py LOCK COMMAND…`: runs a command while nobody else runs one with the same lock file.

For `make setup`: two at once would write into each other's .venv. Plain Python, because macOS has no flock command; the
kernel's lock, because that one goes with whoever held it, however that ended.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command when the lock is there."""
    lock, *command = sys.argv[1:]
    Path(lock).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("mirror-connect: waits for another make that sets up this folder", file=sys.stderr, flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Held by the command, and by what it starts, until the last of them has ended.
    os.set_inheritable(descriptor, True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
