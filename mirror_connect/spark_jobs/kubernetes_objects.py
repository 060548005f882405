"""Removes what Spark made in Kubernetes for a driver: executors' pods, and the ConfigMap that they share.

Kubernetes deletes them with the driver's pod, which owns them. A driver that ends in a living pod would leave them, as it
does not end by Spark's own `stop`, or dies.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.spark_masters import Kind, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mirror_connect.spark_jobs")
# Within the time that the worker waits for the end of its driver.
STOP_S: Final = 1.5
DRIVER_POD: Final = "spark.kubernetes.driver.pod.name"
_ROLE, _EXECUTOR, _APPLICATION = "spark-role", "executor", "spark-app-selector"


def are_made(session: SparkSession) -> bool:
    """Whether this driver asks Kubernetes for executors."""
    return kind_of(session.sparkContext.master) is Kind.KUBERNETES


def remove_those_of_former_drivers(session: SparkSession) -> int:
    """Deletes what other applications of the driver's pod have left; how many objects these were.

    Another driver of that pod has ended: a worker has one, and starts it after the end of the one before. Without the name
    of the pod it is unknown whose objects are whose, and none is deleted.
    """
    context: Any = session.sparkContext
    pod = context.getConf().get(DRIVER_POD, "")
    if not pod:
        return 0
    client = context._jsc.sc().schedulerBackend().kubernetesClient()
    removed = 0
    for kind in (client.pods(), client.configMaps()):
        objects = kind.inNamespace(context.getConf().get("spark.kubernetes.namespace", "default"))
        others = objects.withLabel(_ROLE, _EXECUTOR).withoutLabel(_APPLICATION, context.applicationId)
        for each in others.list().getItems():
            metadata = each.getMetadata()
            if any(owner.getName() == pod for owner in metadata.getOwnerReferences()):
                objects.withName(metadata.getName()).delete()
                removed += 1
    return removed


def remove_in_background(session: SparkSession) -> None:
    """The same, without a wait. What could not be removed is removed at the next start."""

    def remove() -> None:
        try:
            if removed := remove_those_of_former_drivers(session):
                log.info("Kubernetes: %d pods and ConfigMaps of former drivers of this pod are deleted", removed)
        except Exception:  # the tasks run all the same
            log.warning("Kubernetes: what former drivers of this pod have left was not deleted", exc_info=True)

    threading.Thread(target=remove, name="kubernetes-objects", daemon=True).start()


def ending(session: SparkSession) -> Callable[[], None]:
    """What the driver does first when it ends: Spark ends its executors and deletes their objects, or STOP_S are over."""

    def stop() -> None:
        try:
            session.sparkContext._jsc.sc().schedulerBackend().stop()
        except Exception:  # the JVM may be gone
            log.debug("The executors' pods were not deleted", exc_info=True)

    def in_time() -> None:
        stopping = threading.Thread(target=stop, name="kubernetes-objects", daemon=True)
        stopping.start()
        stopping.join(STOP_S)

    return in_time
