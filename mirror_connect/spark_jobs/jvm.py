"""Starts Spark's JVM as PySpark's `launch_gateway` does, without the programs that it runs before.

PySpark runs spark-submit: shells, a Python and a JVM that only print the command of the JVM. Here Python makes the same
command, and the JVM starts while this process imports PySpark.
`tests/spark/test_jvm_command.py` compares the command with the one that Spark prints. One jar is left out (UNUSED_JAR).
Where a setting or a variable changes the command in a way that only spark-submit knows, spark-submit makes it.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

POLL_S: Final = 0.01
MEMORY: Final = "spark.driver.memory"
OPTIONS: Final = "spark.driver.extraJavaOptions"
# What Spark adds to every JVM (org.apache.spark.launcher.JavaModuleOptions).
MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io"),
            *("java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
            *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
            *("java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar"),
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
# A session loads MLlib's functions if their jar is there, which takes a second of processor time. No task uses them.
UNUSED_JAR: Final = "spark-mllib_"
MAIN_CLASS: Final = "org.apache.spark.deploy.SparkSubmit"
# Settings of the command that spark-submit handles, and no worker needs.
_OF_SUBMIT: Final = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.submit.deployMode",
)
# The only variable of Spark's that the worker sets, and that has no effect on the command.
_HARMLESS: Final = frozenset({"SPARK_LOCAL_IP"})


class JvmEndedError(Exception):
    """The JVM has ended before it listened; its own output says why."""


@dataclass(frozen=True, slots=True)
class StartedJvm:
    """A JVM that is coming up; it writes where it listens to `told`."""

    process: subprocess.Popen[bytes]
    told: Path


def start_jvm(
    chosen: Mapping[str, str], environment: Mapping[str, str], output: IO[bytes] | None = None
) -> StartedJvm | None:
    """Starts the JVM with these settings, which everybody on the machine can read. None: only spark-submit can do it.

    `output`: where it and the processes below it write what they log; None: where this process does.

    OSError: there is no such Java.
    """
    home = spark_home()
    command = jvm_command(chosen, environment, home)
    if command is None:
        return None
    told = Path(tempfile.mkdtemp(), "listens")
    process = subprocess.Popen(
        command,
        # The JVM ends when this pipe does.
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env={
            **environment,
            # Not an argument: it is long, and `ps` would show it.
            "CLASSPATH": os.pathsep.join((class_path(home), *hadoop_settings(environment))),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(home / "conf"),
            "SPARK_ENV_LOADED": "1",
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
        },
    )
    return StartedJvm(process, told)


def jvm_command(chosen: Mapping[str, str], environment: Mapping[str, str], home: Path) -> list[str] | None:
    """The command of the JVM, which needs CLASSPATH; None if only spark-submit knows it."""
    own = [name for name in environment if name.startswith(("SPARK_", "PYSPARK_SUBMIT_")) and name not in _HARMLESS]
    if (
        own
        or any(chosen.get(name) for name in _OF_SUBMIT)
        or (home / "conf").exists()
        or "-Xmx" in chosen.get(OPTIONS, "")
    ):
        return None
    try:
        options = shlex.split(chosen.get(OPTIONS, ""))
    except ValueError:  # spark-submit says what is wrong with it
        return None
    java_home = environment.get("JAVA_HOME")
    return [
        f"{java_home}/bin/java" if java_home else "java",
        f"-Xmx{chosen.get(MEMORY, '1g')}",
        *options,
        *MODULE_OPTIONS,
        MAIN_CLASS,
        *(argument for name, value in chosen.items() for argument in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]


def class_path(home: Path) -> str:
    """Spark's jars. The logging interface comes first, as Spark's launcher has it."""
    jars = sorted(jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(UNUSED_JAR))
    return os.pathsep.join(map(str, sorted(jars, key=lambda jar: not jar.name.startswith("slf4j-api-"))))


def hadoop_settings(environment: Mapping[str, str]) -> list[str]:
    """The directories of a Hadoop cluster's settings, where Spark's launcher has them: behind its jars."""
    return [environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]


def gateway_of(jvm: StartedJvm) -> Any:
    """Waits until the JVM listens; returns its JavaGateway. JvmEndedError."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 — the JVM is to start before PySpark is imported

    while not jvm.told.is_file():
        if jvm.process.poll() is not None:
            raise JvmEndedError(f"exit code {jvm.process.returncode}")
        time.sleep(POLL_S)
    port, secret = _read(jvm.told)
    jvm.told.unlink()
    jvm.told.parent.rmdir()
    # PySpark's own way to use a JVM that is there. The variables are gone before another process could get them.
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        gateway: Any = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = jvm.process
    return gateway


def spark_home() -> Path:
    """The directory of PySpark, which is not imported for it."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _read(told: Path) -> tuple[int, str]:
    """Port and secret, as the JVM writes them: big-endian numbers, and the text behind its length."""
    content = told.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()
