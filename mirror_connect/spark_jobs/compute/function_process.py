"""The process of a user's function: rows of records come in, and what the function makes of them goes out.

The feeder starts one for each epoch and hands it the task's connection as standard input. Rows of Arrow and `END` come from
there, and go to standard output. So the user's code is in no process of Spark's, which Spark would use again for a task that
logs in to clusters. It ends with the feeder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

from mirror_connect.connectors.user_code.user_function import FunctionProblem, environment, function_path, loaded
from mirror_connect.spark_jobs.compute.feeder_socket import END

# Exit codes. The task has ended without a word; the feeder takes no rows any more.
TASK_DIED: Final = 3
FEEDER_DIED: Final = 4
_PR_SET_PDEATHSIG: Final = 1
_BUFFER: Final = 256 << 10


def start_function(name: str, incoming: Any) -> subprocess.Popen[bytes]:
    """Starts the process. `incoming`: what it reads rows from. Its rows are at its `stdout`."""
    # Where Spark has put its files for Python, and what it was given: as the feeder has it.
    job = {"name": name, "path": [*(each for each in sys.path if each), *function_path()], "feeder": os.getpid()}
    command = [sys.executable, "-P", "-m", __name__, json.dumps(job)]
    return subprocess.Popen(
        command,
        stdin=incoming,
        stdout=subprocess.PIPE,
        env=environment(),
        bufsize=_BUFFER,
        # With what the function starts it is a group. Its session stays that of Spark, whose end is its own.
        process_group=0,
    )


def kill_function(process: subprocess.Popen[bytes]) -> None:
    """Kills the process, and those that the function has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def serve(name: str, path: list[str], incoming: Any, outgoing: Any) -> int:
    """Applies the function to rows until their end; the exit code."""
    import pyarrow as pa  # noqa: PLC0415 — before the function's module, whose errors are the user's

    from mirror_connect.spark_jobs.compute.python_function import SCHEMA, PythonFunction  # noqa: PLC0415

    try:
        function = PythonFunction(name, loaded(name, path))
    except FunctionProblem as problem:
        function = PythonFunction(name, None, f"can't be used: {problem}")
    try:
        with pa.ipc.new_stream(outgoing, SCHEMA) as out:
            outgoing.flush()
            for batch in _rows_of(incoming):
                for made in function.rows(batch):
                    out.write_batch(made)
                outgoing.flush()
        outgoing.write(END)
        outgoing.flush()
    except _TaskDiedError:
        return TASK_DIED
    except BrokenPipeError:
        return FEEDER_DIED
    return 0


class _TaskDiedError(Exception):
    """The task has ended without a word."""


def _rows_of(incoming: Any) -> Iterator[Any]:
    """The rows of the task. An error while they are transformed is none of the task's, and is not raised in here."""
    import pyarrow as pa  # noqa: PLC0415 — see `serve`

    try:
        with pa.ipc.open_stream(incoming) as rows:
            yield from rows
        ending = incoming.read(len(END))
    except (OSError, pa.ArrowInvalid):
        raise _TaskDiedError from None
    if ending != END:
        raise _TaskDiedError


def _end_with_the_feeder(feeder: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != feeder:
        os._exit(FEEDER_DIED)


def main() -> None:
    """Runs the process of a function. What the function prints goes to the log."""
    job = json.loads(sys.argv[1])
    _end_with_the_feeder(job["feeder"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    incoming = os.fdopen(os.dup(0), "rb", _BUFFER)
    outgoing = os.fdopen(os.dup(1), "wb", _BUFFER)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    code = serve(job["name"], job["path"], incoming, outgoing)
    # Threads of the module must not hold it.
    os._exit(code)


if __name__ == "__main__":
    main()
