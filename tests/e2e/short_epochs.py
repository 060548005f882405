"""Epochs of tasks that last seconds and not a quarter of an hour, so that a test sees many of them."""

from __future__ import annotations

import os
from pathlib import Path

_PATCH = """
import mirror_connect.spark_jobs.task_context as task_context

task_context.EPOCH_SECONDS = {seconds}
"""


def short_epochs(directory: Path, seconds: float) -> dict[str, str]:
    """The environment of a worker whose tasks have such epochs; what it needs lies in this directory.

    Python imports this module before anything else, in each process of the worker.
    """
    (directory / "sitecustomize.py").write_text(_PATCH.format(seconds=seconds))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH", ""))))}
