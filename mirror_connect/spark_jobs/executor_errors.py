"""What Spark says of a query that ended, as one line: an executor can't run Python's tasks, or a record was too much.

Spark gives texts alone, of many lines: the stack of its own scheduler, and in it what the executor's process wrote.
"""

from __future__ import annotations

import re
from typing import Final

from mirror_connect.connectors.task_protocol import STACK
from mirror_connect.spark_jobs.executor_versions import ADVICE, OUR_LINE

# Spark's TaskSetManager: `Lost task 0.7 in stage 5.0 (TID 12) (10.0.0.1 executor 0): …`.
_LOST: Final = re.compile(r"\(TID \d+\) \((?P<host>\S+) executor (?P<executor>\S+)\):\s*(?P<error>[^\n]*)")
_DRIVER: Final = "driver"
# What is too much for one record. Spark's TryEval does not catch it.
_TOO_MUCH: Final = re.compile(r"java\.lang\.(?P<error>StackOverflowError|OutOfMemoryError)\b")
_OURS: Final = re.compile(rf"^\s*{re.escape(OUR_LINE)}(?P<what>.*)$", re.MULTILINE)
# `error=2, No such file or directory`; since Java 22 `Exec failed, error: 2 (No such file or directory)`.
_NO_PROGRAM: Final = re.compile(r'Cannot run program "(?P<program>[^"]+)"[^\n]*?error(?:=|: )\d+,? \(?(?P<why>[^\n)]*)')
_NO_PACKAGE: Final = re.compile(r"No module named '?(?P<module>mirror_connect|pyspark)\b")
# Behind this line stands what a daemon wrote before it ended.
_DAEMON: Final = re.compile(r"Error from python worker:\s*\n(?P<lines>.*?)\n\s*PYTHONPATH was:", re.DOTALL)
# Classes of Java that one Spark has and another has not, or in another form.
_OTHER_SPARK: Final = re.compile(
    r"java\.(?:io\.InvalidClassException|lang\.(?:NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError))"
    r"|java\.lang\.ClassNotFoundException: (?:org\.apache\.spark|scala)\."
)


def executor_line(text: str) -> str | None:
    """Which executor can't run tasks, why, and what to do; None if Spark's text is of something else."""
    lost = _LOST.search(text)
    if lost is None or lost["executor"] == _DRIVER:
        return None
    what = _what(text, lost["error"])
    return None if what is None else f"Executor {lost['executor']} on {lost['host']} {what}"


def fatal_error(text: str) -> str | None:
    """STACK or MEMORY, of which a record needed too much in Spark's last try; None if Spark's text is of something else."""
    lost = _LOST.search(text)
    found = None if lost is None else _TOO_MUCH.match(lost["error"])
    return None if found is None else found["error"]


def statement_line(text: str) -> str | None:
    """That a record was too much for a statement, and what to do; None if Spark's text is of something else."""
    found = fatal_error(text)
    if found is None:
        return None
    if found == STACK:
        return (
            "Spark has not enough stack to apply the statement to a record (StackOverflowError): "
            "write a simpler pattern for rlike, regexp_replace and their like, or limit the length of what it reads"
        )
    return (
        "Spark has not enough memory to apply the statement to a record (OutOfMemoryError): "
        "limit what its functions make, as repeat and sequence, or raise spark.transform.driver.memory "
        "(on a cluster spark.executor.memory)"
    )


def _what(text: str, error: str) -> str | None:
    if (ours := _OURS.search(text)) is not None:
        return ours["what"]
    if (missing := _NO_PROGRAM.search(text)) is not None:
        return f"can't start Python at {missing['program']} ({missing['why']}). {ADVICE}"
    daemon = _DAEMON.search(text)
    if daemon is None:
        return (
            f"seems to run another release of Spark ({error}). Use the worker's" if _OTHER_SPARK.search(text) else None
        )
    if (missing := _NO_PACKAGE.search(daemon["lines"])) is not None:
        return f"has no {missing['module']} in its Python. {ADVICE}"
    said = [line.strip() for line in daemon["lines"].splitlines() if line.strip()]
    return f"can't run Python: {said[-1]}. {ADVICE}" if said else None
