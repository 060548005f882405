"""Spark's settings for a worker's application: defaults, fixed ones, and the JVM's options. It imports no PySpark."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from mirror_connect.connectors.spark_masters import Kind, kind_of

log = logging.getLogger(__name__)

# The classes that the JVM loads at each start (class_archive.py); beside it the cache that Java 25 makes instead.
ARCHIVE: Final = Path(sys.prefix) / "share" / "mirror-connect" / "spark.jsa"
AOT_CACHE: Final = ".aot"
FIRST_WITH_CACHE: Final = 25
# Users need not know of an archive that doesn't fit, or of classes that it can't contain.
QUIET: Final = "-Xlog:cds*=off"
MAKES_ARCHIVE: Final = ("-XX:ArchiveClassesAtExit=", "-XX:AOTCacheOutput=")
QUIET_CACHE: Final = f"{QUIET} -Xlog:aot*=off"
# The Python of tasks.
PYTHON: Final = "spark.pyspark.python"
# YARN's client asks the file system of what it uploads for its scheme. This one does not know it.
RAW_FILES: Final = "spark.hadoop.fs.file.impl"
# A user's own spark.* properties override these, but not those in FIXED.
DEFAULTS = {
    "spark.master": "local[64,4]",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.shuffle.partitions": "1",
    # A query's row is a tick of its clock: not worth a compiler, whose classes (Janino's) are too old for the archive.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.cleaner.periodicGC.interval": "60min",
    # A checkpoint lasts as long as its run. Hadoop's default for it starts 70 processes (`chmod`, `readlink`) for an epoch's
    # files and their checksums, these start 16, and an epoch begins and ends 0.2 s sooner.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    RAW_FILES: "org.apache.hadoop.fs.RawLocalFileSystem",
}
# A record's XML must read no file and ask no host. Statements are refused such functions. This holds if one is forgotten.
NO_EXTERNAL_XML: Final = "-Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema="
# Serial collection and a small code cache: the JVM only places and watches tasks, so memory matters and pauses don't.
# A small heap at first, whose young part stays small: 100 MB less, and the same processor time (a start and seven epochs).
# No perf data file: it would lie outside of our scratch directory and outlive a kill.
JVM_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m -Xmn24m -Xss512k -XX:ReservedCodeCacheSize=64m -XX:-UsePerfData"
)
# Where statements are applied, on this machine: in an application of its own, whose JVM computes. Both compilers, and room
# for what they make; a young part in which the rows of some batches die before they are copied. Java's regular expressions
# need stack for each character of some records. Only what is used of it takes memory.
STATEMENT_JVM_OPTIONS = "-XX:+UseSerialGC -Xms192m -Xmn96m -Xss4m -XX:ReservedCodeCacheSize=128m -XX:-UsePerfData"
# On every master.
FIXED = {
    "spark.pyspark.driver.python": sys.executable,
    # Imports what a task needs before it forks, so that its pages are shared by all tasks.
    "spark.python.daemon.module": "mirror_connect.spark_jobs.daemon",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # A record for which a statement needs too much stack or heap ends its own query, and not the JVM of all of them.
    "spark.executor.killOnFatalError.depth": "0",
    # Only so do queries use the Python processes of the job that starts them (session.py). No task raises an error.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
FIXED_IF_LOCAL = {
    "spark.app.name": "mirror-connect",
    PYTHON: sys.executable,
    # Without the secret nobody can use Spark's ports, not even on this machine. The JVM generates the secret and keeps it
    # in its memory (SecurityManager.initializeAuth, for local masters).
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
# Defaults for this machine alone: other hosts could not connect.
OF_LOOPBACK: Final = ("spark.driver.bindAddress", "spark.driver.host")
# PySpark's `/.UUID.sock`, and the longest path that every system accepts, without the final zero.
_SOCKET_NAME = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH = 103
# Spark's own spark.redaction.regex.
_SECRET: Final = re.compile("(?i)secret|password|token|access[.]?key")


def settings(user: Mapping[str, str], *, statements: bool = False) -> dict[str, str]:
    """Spark's configuration from the worker's `spark.*` properties. Extra JVM options of users are appended.

    `statements`: whether the application applies the statements of connectors.
    """
    # TMPDIR is the scratch directory, which nobody else may enter. Java does not use that variable by itself.
    scratch = tempfile.gettempdir()
    kind = kind_of(user.get("spark.master", DEFAULTS["spark.master"]))
    if kind is Kind.LOCAL:
        merged = {**DEFAULTS, **user, **FIXED, **FIXED_IF_LOCAL, **_python_sockets(scratch)}
    else:
        from mirror_connect.spark_jobs.cluster_settings import cluster_settings  # noqa: PLC0415 — not for most starts

        unfit = (*OF_LOOPBACK, *((RAW_FILES,) if kind is Kind.YARN else ()))
        defaults = {name: value for name, value in DEFAULTS.items() if name not in unfit}
        merged = {**defaults, **cluster_settings(user, kind), **FIXED}
    # Files of a JVM that crashes are written there too and deleted with it: they may contain secrets.
    ours = f"-Djava.io.tmpdir={scratch} -XX:ErrorFile={scratch}/hs_err_pid%p.log -XX:-CreateCoredumpOnCrash"
    users = user.get("spark.driver.extraJavaOptions", "")
    # A JVM that uses an archive can't make one.
    archive = "" if any(each in users for each in MAKES_ARCHIVE) else archive_option()
    # On a cluster executors apply them.
    jvm = STATEMENT_JVM_OPTIONS if statements and kind is Kind.LOCAL else JVM_OPTIONS
    options = (jvm, NO_EXTERNAL_XML, archive, ours, users)
    merged["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    return merged


def _python_sockets(scratch: str) -> dict[str, str]:
    """The settings by which the JVM and Python's processes connect.

    On a loopback port, PySpark's daemon forks for anybody who connects, and authenticates afterwards. So it uses sockets in
    a directory that only this user may enter, unless the path is too long for a socket.
    """
    enabled = len(os.fsencode(scratch)) + _SOCKET_NAME <= _SOCKET_PATH
    if not enabled:
        log.warning(
            "TMPDIR %s is too long for Unix sockets, so PySpark uses loopback ports. "
            "Other users of this machine can make it fork there. Use a shorter TMPDIR",
            scratch,
        )
    return {
        "spark.python.unix.domain.socket.enabled": str(enabled).lower(),
        "spark.python.unix.domain.socket.dir": scratch,
    }


def archive_places(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where the archive of Java's classes may be: beside the package, or in the cache of the user (or of systemd's unit)."""
    home = environment.get("HOME")
    of_user = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    # systemd's variable may list several directories.
    caches = [environment.get("CACHE_DIRECTORY", "").partition(":")[0], of_user and f"{of_user}/mirror-connect"]
    return [ARCHIVE, *(Path(cache, ARCHIVE.name) for cache in caches if cache)]


def archive_option(places: Iterable[Path] | None = None) -> str:
    """The JVM options that use the newest archive; empty without one. Java ignores one that doesn't fit."""
    every = archive_places() if places is None else places
    # A cache's options end an older Java.
    kinds = [
        each for place in every for each in ([place, place.with_suffix(AOT_CACHE)] if has_aot_cache() else [place])
    ]
    # Not place.is_file(), which raises in the home directory of another user.
    found = [each for each in kinds if os.path.isfile(each)]
    if not found:
        return ""
    newest = max(found, key=lambda place: place.stat().st_mtime)
    if newest.suffix == AOT_CACHE:
        return f'-XX:AOTCache="{newest}" {QUIET_CACHE}'
    return f'-XX:SharedArchiveFile="{newest}" {QUIET}'


def has_aot_cache(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this Java makes and uses ahead-of-time caches, by its file `release`; False if there is none."""
    home = environment.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java", path=environment.get("PATH", ""))
    if java is None:
        return False
    try:
        release = Path(java).resolve().parents[1] / "release"
        found = re.search(r'^JAVA_VERSION="(\d+)', release.read_text("utf-8"), re.MULTILINE)
    except (OSError, ValueError, IndexError):
        return False
    return found is not None and int(found[1]) >= FIRST_WITH_CACHE


def without_secrets(chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings that everybody may see: the JVM's arguments, which everybody on the machine can read."""
    return {name: value for name, value in chosen.items() if not _SECRET.search(name)}
