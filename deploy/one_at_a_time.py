"""`python deploy/one_at_a_time.py LOCK COMMAND…`: runs a command under a lock, so that only one runs at a time.

For `make setup`: two at once would write into each other's .venv. Python, because macOS has no flock command. The kernel
releases the lock when its process ends in any way.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path


def main() -> None:
    """Waits for the lock and becomes the command."""
    lock, *command = sys.argv[1:]
    Path(lock).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("mirror-connect: waits for another make that sets up this folder", file=sys.stderr, flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    # The command and its children hold the lock until the last of them has ended.
    os.set_inheritable(descriptor, True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
