"""The executors of the application, as Spark knows them now: they come and go on a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The driver is in Spark's list as well, with no slot on a cluster.
_DRIVER: Final = "driver"


class Executors:
    """Asks Spark's driver. A look is three calls into the JVM, whatever their number."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext._jsc.sc()
        writer = session.sparkContext._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter()
        self._as_json: Any = writer.mapper()
        self._profile: Any = self._context.resourceProfileManager().defaultResourceProfile()

    @property
    def stopped(self) -> bool:
        """Whether Spark has ended the application, as when a cluster's operator kills it."""
        return bool(self._context.isStopped())

    def slots(self) -> int:
        """How many tasks can run at a time. An executor that is being decommissioned has no slot any more."""
        return int(self._context.maxNumConcurrentTasks(self._profile))

    def all(self) -> list[dict[str, Any]]:
        """`id`, `host` and `slots` of each that is alive."""
        found = json.loads(self._as_json.writeValueAsString(self._context.statusStore().executorList(True)))
        return [
            {"id": each["id"], "host": each["hostPort"].rpartition(":")[0], "slots": each["maxTasks"]}
            for each in found
            if each["id"] != _DRIVER
        ]
