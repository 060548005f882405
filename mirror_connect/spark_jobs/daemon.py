"""Runs PySpark's worker daemon with a task's modules imported before it forks: tasks start fast and share pages."""

from __future__ import annotations

import gc
import importlib

from mirror_connect.connectors.user_code.hidden_memory import hide_memory

PRELOADED = (
    "pyarrow",
    "asyncio",
    "uvloop",
    "mirror_connect.spark_jobs.query",
    "mirror_connect.spark_jobs.tasks.registry",
)


def main() -> None:
    """Imports the modules, freezes the heap so that garbage collection in a child unshares no pages, and runs the daemon."""
    hide_memory()
    for module in PRELOADED:
        importlib.import_module(module)
    gc.freeze()
    from pyspark.daemon import manager  # noqa: PLC0415 — only the daemon's process needs it

    manager()


if __name__ == "__main__":
    main()
