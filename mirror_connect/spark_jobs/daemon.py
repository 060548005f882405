"""PySpark's worker daemon with the task's modules imported before it forks: tasks start at once and share their pages."""

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
    """Imports, freezes the heap (so that collections in a child don't unshare pages), and serves Spark's forks."""
    hide_memory()
    for module in PRELOADED:
        importlib.import_module(module)
    gc.freeze()
    from pyspark.daemon import manager  # noqa: PLC0415 — it closes over stdin and stdout at import

    manager()


if __name__ == "__main__":
    main()
