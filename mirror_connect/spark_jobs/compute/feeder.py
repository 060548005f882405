"""The first of the two Python processes of a task whose records Spark transforms: it hands on what the second one sends.

It knows nothing of the records. The task process sends it rows, which it gives to Spark as they are. Spark transforms them
and gives them to the task process. If the task process dies, the feeder fails, and so does Spark's attempt. With a function
of the user's the feeder is between that function's process and Spark (function_feeder.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.compute.feeder_socket import END, attempt, connect

if TYPE_CHECKING:
    import pyarrow

_BUFFER: Final = 256 << 10


class TaskDiedError(Exception):
    """The task's process has ended without a word."""


def feed(token: str, clock: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of each epoch. NoPeerError, TaskDiedError."""
    for _ in clock:
        yield from relayed(token, attempt())


def relayed(token: str, number: int) -> Iterator[pyarrow.RecordBatch]:
    """The rows that the task of this attempt sends. NoPeerError, TaskDiedError."""
    with connect(token, number) as connection, connection.makefile("rb", buffering=_BUFFER) as incoming:
        yield from rows_of(incoming)


def rows_of(incoming: Any) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a stream that `END` follows. TaskDiedError if it ends otherwise."""
    import pyarrow  # noqa: PLC0415 — the driver pickles this

    try:
        with pyarrow.ipc.open_stream(incoming) as stream:
            yield from stream
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise TaskDiedError(f"the task's process has ended in the middle of its rows: {error}") from None
    # For Arrow the end of the connection is an end of rows like any other.
    if incoming.read(len(END)) != END:
        raise TaskDiedError("the task's process has ended")
