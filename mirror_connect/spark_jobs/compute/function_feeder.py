"""What a feeder does with a function of the user's: it has the rows of its task transformed in a process of that function.

That process alone reads what the task sends. It ends with the epoch, with the feeder and with the task, also if the function
never returns: while the feeder waits for rows, Spark waits for the feeder, and nobody would start the task again.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mirror_connect.spark_jobs.compute.feeder import TaskDiedError, rows_of
from mirror_connect.spark_jobs.compute.feeder_socket import attempt, connect
from mirror_connect.spark_jobs.compute.function_process import TASK_DIED, kill_function, start_function

if TYPE_CHECKING:
    import pyarrow

# How long a process may take to end when it writes nothing any more.
_END_S: Final = 5.0


class FunctionDiedError(Exception):
    """The process of a user's function has ended without a word."""


def feed_function(token: str, name: str, clock: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """As feeder.feed, after a function of the user's. FunctionDiedError, too."""
    for _ in clock:
        yield from transformed(token, attempt(), name)


def transformed(token: str, number: int, name: str) -> Iterator[pyarrow.RecordBatch]:
    """The rows that a function makes of those of the task. NoPeerError, TaskDiedError, FunctionDiedError."""
    with connect(token, number) as connection:
        process = start_function(name, connection.fileno())
        assert process.stdout is not None
        watch = _Watch(connection, process)
        try:
            yield from rows_of(process.stdout)
        except TaskDiedError:
            code = _code_of(process)
            if code == TASK_DIED or watch.task_is_gone:
                raise
            raise FunctionDiedError(f"{name} has ended its process (exit code {code})") from None
        finally:
            kill_function(process)
            watch.end()
            process.stdout.close()
            process.wait()


class _Watch:
    """Kills a function's process when its task has gone and it does not return, and what it has left when it has ended."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.task_is_gone = False
        self._connection = connection
        self._process = process
        # Readable when the process has ended. It was not waited for yet, so it is there.
        self._ended = os.pidfd_open(process.pid)
        self._thread = threading.Thread(target=self._watch, name="function-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._ended, select.POLLIN)
        # Not its rows, which are the function's: only that the task has closed it, which is always told.
        poller.register(self._connection, 0)
        ended = any(descriptor == self._ended for descriptor, _ in poller.poll())
        # The task keeps it open as long as it wants rows (row_sender.py).
        self.task_is_gone = not ended
        # Processes that it has started may hold its end of the pipe, too.
        kill_function(self._process)

    def end(self) -> None:
        """Returns when it watches no more. The process has been killed."""
        self._thread.join()
        os.close(self._ended)


def _code_of(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that writes nothing any more. Its function may have closed what it does not know."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_S)
    kill_function(process)
    return process.wait()
