"""Spark's settings where executors are on a cluster: each with its kinds of master and its reason. It imports no PySpark.

docs/configuration.md prints this table.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.spark_masters import Kind
from mirror_connect.kafka_io.client.java_options import KAFKA_OPTS
from mirror_connect.spark_jobs.executor_versions import VARIABLE, wanted_variable

log = logging.getLogger(__name__)

CLUSTERS: Final = (Kind.STANDALONE, Kind.YARN, Kind.KUBERNETES)
_MANAGED: Final = (Kind.YARN, Kind.KUBERNETES)
MASTER: Final = "spark.master"
ARCHIVES: Final = "spark.archives"
OF_YARN: Final = "spark.yarn.dist.archives"
PYTHON: Final = "spark.pyspark.python"
EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
OVERHEAD: Final = "spark.executor.memoryOverhead"
EXECUTOR_ENVIRONMENT: Final = "spark.executorEnv."
CORES: Final = "spark.executor.cores"
# The name behind `#` by which executors find what spark-archive packs, and Python in it.
ENVIRONMENT: Final = "environment"
ARCHIVE_PYTHON: Final = f"./{ENVIRONMENT}/bin/python"
# Of a task's process with its buffers, and of an executor's JVM outside of its heap with PySpark's daemon.
MB_A_SLOT: Final = 200
MB_AN_EXECUTOR: Final = 200
# As those of the driver (spark_settings.JVM_OPTIONS), but with both compilers and more stack: an executor may apply
# statements. Spark sets the heap, and no archive of classes is there.
_EXECUTOR_JVM: Final = (
    "-XX:+UseSerialGC -Xmn24m -Xss4m -XX:ReservedCodeCacheSize=64m -XX:-UsePerfData "
    "-Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema="
)
# Of commons-crypto, by which Spark encrypts. Its defaults try a native library first.
JAVA_CIPHER: Final = "org.apache.commons.crypto.cipher.JceCipher"
JAVA_RANDOM: Final = "org.apache.commons.crypto.random.JavaCryptoRandom"


@dataclass(frozen=True, slots=True)
class ClusterSetting:
    """One setting. `fixed`: a user's own value has no effect. `reason`: a clause that stands behind a colon."""

    name: str
    value: str
    reason: str
    kinds: tuple[Kind, ...] = CLUSTERS
    fixed: bool = False


# fmt: off
CLUSTER_SETTINGS: Final = (
    ClusterSetting("spark.driver.bindAddress", "0.0.0.0", "executors connect from other hosts"),
    ClusterSetting("spark.app.name", "mirror-connect", "the name that the cluster's pages show"),
    ClusterSetting("spark.executor.memory", "512m",
        "an executor's JVM only starts tasks, unless it applies statements; other records are not in this heap"),
    ClusterSetting(CORES, "4", "the slots of an executor; a standalone cluster gives all cores of a Spark worker",
        _MANAGED),
    ClusterSetting("spark.kubernetes.executor.request.cores", "1",
        "a slot is no CPU: tasks that copy little need hardly any of it", (Kind.KUBERNETES,)),
    ClusterSetting("spark.task.maxFailures", "8",
        "a process that dies is replaced in the same query, as often as this"),
    ClusterSetting("spark.executor.failuresValidityInterval", "1h",
        "else all executors lost in the months of a run would count together, and end it", _MANAGED),
    ClusterSetting("spark.yarn.am.attemptFailuresValidityInterval", "1h",
        "the same of application masters, of which YARN starts two by default", (Kind.YARN,)),
    ClusterSetting("spark.scheduler.minRegisteredResourcesRatio", "0",
        "the status says which executors are missing; the start does not wait for them", _MANAGED),
    ClusterSetting("spark.speculation", "false",
        "a second process of a task would fence the first one", fixed=True),
    ClusterSetting("spark.decommission.enabled", "true",
        "an executor that is to go gets no new tasks, and those on it move while it is there"),
    ClusterSetting("spark.task.cpus", "1", "each task has one slot", fixed=True),
    ClusterSetting("spark.dynamicAllocation.enabled", "false",
        "tasks never end, so executors would be asked for and never given back", fixed=True),
    ClusterSetting("spark.scheduler.mode", "FIFO", "a task that waits for a slot waits in order", fixed=True),
    ClusterSetting("spark.locality.wait", "0s", "a task has no place where its data are, so nothing is waited for",
        fixed=True),
    ClusterSetting("spark.python.worker.idleTimeoutSeconds", "0",
        "a task process gives Spark no rows for minutes, which is no reason to kill it", fixed=True),
    ClusterSetting("spark.python.worker.killOnIdleTimeout", "false", "the same", fixed=True),
    ClusterSetting("spark.python.unix.domain.socket.dir", ".",
        "JVM and Python of an executor connect in its own directory, not on a port that others reach", fixed=True),
    ClusterSetting("spark.executorEnv.PYSPARK_UDS_MODE", "true",
        "this turns those sockets on at executors alone; the driver has no Python processes", fixed=True),
    ClusterSetting("spark.authenticate", "true",
        "the tokens of tasks are in Spark's messages; these clusters make a secret for each application", _MANAGED,
        fixed=True),
    ClusterSetting("spark.authenticate", "true",
        "the same; the secret is spark.authenticate.secret, which Spark's master and workers have, too",
        (Kind.STANDALONE,)),
    ClusterSetting("spark.network.crypto.enabled", "true", "the same messages must not be readable on the way",
        _MANAGED, fixed=True),
    ClusterSetting("spark.network.crypto.enabled", "true",
        "the same; Spark's master and workers need it, too", (Kind.STANDALONE,)),
    ClusterSetting("spark.network.crypto.saslFallback", "false",
        "else who is in between could have them sent without encryption"),
    ClusterSetting("spark.io.encryption.enabled", "true",
        "what an executor writes to its disk may have tokens of tasks in it"),
    ClusterSetting("spark.network.crypto.config.cipher.classes", JAVA_CIPHER,
        "Java's own AES. Spark's native library would be unpacked to `/tmp`, where it stays if the executor is killed"),
    ClusterSetting("spark.io.encryption.commons.config.cipher.classes", JAVA_CIPHER, "the same"),
    ClusterSetting("spark.io.encryption.commons.config.secure.random.classes", JAVA_RANDOM, "the same"),
    ClusterSetting("spark.io.compression.codec", "lzf", "the same of the native library of lz4"),
    ClusterSetting("spark.executorEnv.PYTHONSAFEPATH", "1",
        "no module comes from the directory in which an executor was started", fixed=True),
)
# fmt: on
# The worker's own variables that tasks read: plugin.path and plugin.modules (user_class.PLUGIN_PATH), and the log level.
# Of KAFKA_OPTS the driver has only the part that tasks read (java_options.for_tasks).
_OF_TASKS: Final = "MIRROR_CONNECT_"
# Of the driver too, whose directory they don't suit; see PYSPARK_UDS_MODE.
_NOWHERE: Final = ("spark.python.unix.domain.socket.enabled",)


def cluster_settings(user: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Defaults, the worker's `spark.*` properties, what is computed, and what is fixed. Logs what has no effect."""
    of_kind = [each for each in CLUSTER_SETTINGS if kind in each.kinds]
    for each in of_kind:
        if each.fixed and user.get(each.name, each.value) != each.value:
            log.warning("%s=%s has no effect, it is %s: %s", each.name, user[each.name], each.value, each.reason)
    chosen = {each.name: each.value for each in of_kind if not each.fixed} | dict(user)
    chosen.setdefault(PYTHON, executors_python(user))
    if kind is Kind.YARN and ARCHIVES in chosen:
        # YARN unpacks these itself. By both names executors would get them twice.
        chosen[OF_YARN] = ",".join(filter(None, (chosen.get(OF_YARN), chosen.pop(ARCHIVES))))
    if kind in _MANAGED:
        chosen.setdefault(OVERHEAD, memory_overhead(chosen[CORES]))
    chosen[EXECUTOR_OPTIONS] = " ".join(filter(None, (_EXECUTOR_JVM, user.get(EXECUTOR_OPTIONS))))
    for name, value in os.environ.items():
        if (name.startswith(_OF_TASKS) or name == KAFKA_OPTS) and value:
            chosen.setdefault(f"{EXECUTOR_ENVIRONMENT}{name}", value)
    chosen |= {each.name: each.value for each in of_kind if each.fixed}
    chosen[f"{EXECUTOR_ENVIRONMENT}{VARIABLE}"] = wanted_variable()
    return {name: value for name, value in chosen.items() if name not in _NOWHERE}


def executors_python(user: Mapping[str, str]) -> str:
    """Python at the executors: that of an archive named `#environment`, else that of this process, at the same path."""
    given = [each.strip() for name in (ARCHIVES, OF_YARN) for each in user.get(name, "").split(",")]
    return ARCHIVE_PYTHON if any(each.endswith(f"#{ENVIRONMENT}") for each in given) else sys.executable


def memory_overhead(cores: str) -> str:
    """What an executor needs beside its heap, by its slots."""
    slots = int(cores) if re.fullmatch(r"\d+", cores) else 1
    return f"{MB_AN_EXECUTOR + MB_A_SLOT * slots}m"
