"""The image as one of Spark's executors on Kubernetes: the command that Spark's own images make of their variables.

Spark starts a pod with the argument `executor`, and says all else in variables (BasicExecutorFeatureStep).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.docker.conventions import Mistake
from mirror_connect.spark_jobs.jvm import class_path, spark_home

EXECUTOR: Final = "executor"
MAIN_CLASS: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_ARGUMENTS: Final[Mapping[str, str]] = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def executor_command(environment: Mapping[str, str], home: Path | None = None) -> list[str]:
    """Java with the executor's class. Mistake: this is no pod that Spark has started."""
    missing = [name for name in (*_ARGUMENTS.values(), _MEMORY) if not environment.get(name)]
    if missing:
        raise Mistake(f"Spark starts a pod with `{EXECUTOR}`; {missing[0]} is not set, so it has not started this one")
    java_home = environment.get("JAVA_HOME")
    numbered = {int(found[1]): name for name in environment if (found := _OPTION.fullmatch(name)) is not None}
    # Not -Xms as Spark's script: most of the heap stays unused.
    return [
        f"{java_home}/bin/java" if java_home else "java",
        *(environment[numbered[number]] for number in sorted(numbered)),
        f"-Xmx{environment[_MEMORY]}",
        *("-cp", os.pathsep.join(filter(None, (environment.get("SPARK_CLASSPATH"), class_path(home or spark_home()))))),
        MAIN_CLASS,
        *(argument for name, variable in _ARGUMENTS.items() for argument in (name, environment[variable])),
    ]
