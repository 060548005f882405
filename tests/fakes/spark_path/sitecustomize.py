"""Put this folder on PYTHONPATH, and every Python of a Spark application runs the fake tasks instead of real ones."""

import sys
from types import ModuleType

module = ModuleType("mirror_connect.spark_jobs.tasks.registry")


def _tasks(name: str) -> object:
    # Late, as every Python runs this file at its start, also those that need no task.
    if name != "TASKS":
        raise AttributeError(name)
    from fake_tasks import TASKS  # noqa: PLC0415

    return TASKS


module.__getattr__ = _tasks  # type: ignore[method-assign]
sys.modules[module.__name__] = module
