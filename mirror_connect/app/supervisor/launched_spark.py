"""The first Spark application of a process, launched as soon as the settings are known.

Spark needs most of the time of a start, and nothing of it needs the worker: so it comes up while the worker imports its web
framework and reads its topics. What its driver asks meanwhile waits in the queue of the internal HTTP's port.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from typing import Final

from mirror_connect.app.config.task_listener import ANY, TaskListener
from mirror_connect.app.environment import listen_on
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.task_channel import open_task_channel, with_driver_address
from mirror_connect.connectors.spark_masters import is_local


class LaunchedSpark:
    """See the module. Creating it opens the port of the internal HTTP and launches Spark. StartupError.

    The driver shows `token`. `spark`: what Spark gets; `tasks`: where executors on a cluster reach the worker, which is None
    with a local master.
    """

    def __init__(self, spark: Mapping[str, str], tasks: TaskListener = ANY) -> None:
        self.token: Final = secrets.token_urlsafe(32)
        self.listener: Final = listen_on("127.0.0.1", 0, "the internal HTTP")
        self.spark: Final = with_driver_address(spark)
        self.tasks: Final = open_task_channel(self.spark, tasks)
        # On a cluster there is no other one, which would have the statements.
        statements = not is_local(self.spark.get("spark.master", "local"))
        self.application: Final = self.new_application(self.spark, statements=statements)
        with contextlib.suppress(OSError):  # `start` tries again, and its error is reported
            self.application.launch(f"http://127.0.0.1:{self.listener.getsockname()[1]}", self.token)

    def new_application(self, spark: Mapping[str, str], *, statements: bool) -> SparkApplication:
        """Another one, whose tasks use the same channel. `statements`: see SparkApplication."""
        return SparkApplication(spark, self.tasks.told if self.tasks is not None else None, statements=statements)

    def kill(self) -> None:
        """Ends it, unless a SparkHost has it by now."""
        self.application.kill()
