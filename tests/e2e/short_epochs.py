"""Epochs of tasks that last seconds and not a quarter of an hour, so that a test sees many of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.spark_clusters import chosen

_PATCH = """
import mirror_connect.spark_jobs.task_context as task_context

task_context.EPOCH_SECONDS = {seconds}
"""


def short_epochs(directory: Path, seconds: float) -> dict[str, str]:
    """The environment of a worker whose tasks have such epochs; what it needs lies in this directory.

    Python imports this module before anything else, in each process of the worker. Executors of a Spark cluster on this
    machine need `on_executors` beside it.
    """
    (directory / "sitecustomize.py").write_text(_PATCH.format(seconds=seconds))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH", ""))))}


def on_executors(environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's properties with which executors have this PYTHONPATH, too, if its tasks run on a Spark cluster."""
    return {"spark.executorEnv.PYTHONPATH": environment["PYTHONPATH"]} if chosen() else {}
