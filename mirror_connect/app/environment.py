"""What a worker needs of its machine, checked before anything is started: Java, room for scratch files, free ports."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from mirror_connect.app.errors import StartupError

OLDEST_JAVA: Final = 17
SCRATCH_BYTES: Final = 64 << 20
JAVA_ANSWERS_S: Final = 20
OPEN_FILES: Final = 65_536
# Spark 4.2 starts its JVM with --add-modules for this one; a Java without it ends before it has begun.
SPARK_MODULE: Final = "jdk.incubator.vector"


def check_java() -> None:
    """StartupError unless `java` of JAVA_HOME or PATH is one that Spark can use; takes some 150 ms."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"in JAVA_HOME={home}" if home else "on the PATH"
    if java is None or not os.access(java, os.X_OK):
        raise StartupError(f"No java {where}: install Java {OLDEST_JAVA} or newer, Spark needs it, or set JAVA_HOME.")
    version = re.search(r'version "(?:1\.)?(\d+)', _said_by(java, "-version"))
    if version is None or int(version.group(1)) < OLDEST_JAVA:
        found = version.group(1) if version else "unknown"
        raise StartupError(
            f"{java} is Java {found}, but Spark needs Java {OLDEST_JAVA} or newer: set JAVA_HOME to one."
        )
    if not re.search(rf"^{re.escape(SPARK_MODULE)}(@|\s|$)", _said_by(java, "--list-modules"), re.MULTILINE):
        raise StartupError(
            f"{java} has no module {SPARK_MODULE}, without which Spark's JVM does not start: install a whole JDK or JRE "
            f"{OLDEST_JAVA} or newer, not one cut down by jlink, or set JAVA_HOME to one."
        )


def _said_by(java: str, option: str) -> str:
    try:
        said = subprocess.run([java, option], capture_output=True, text=True, timeout=JAVA_ANSWERS_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise StartupError(
            f"{java} {option} does not work ({type(error).__name__}): install Java {OLDEST_JAVA} or newer."
        ) from None
    return said.stderr + said.stdout


def allow_open_files() -> None:
    """As many open files as this machine lets a process have, 65,536 at most. A JVM does that for itself.

    Of the usual 1,024, a thousand clients that send half a request would leave none for others, nor for the cluster.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def leave_no_core() -> None:
    """No process of the worker leaves its memory, in which logins are, when it crashes. Children inherit both.

    The limit alone is not heeded where the kernel hands cores to a program; an empty filter leaves nothing to hand over.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # another system than Linux
        Path("/proc/self/coredump_filter").write_text("0")


def check_scratch() -> None:
    """StartupError when the temporary directory can't hold Spark's scratch files."""
    try:
        directory = tempfile.gettempdir()
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise StartupError(f"No temporary directory can be used ({error}): set TMPDIR to one that can.") from None
    if free < SCRATCH_BYTES:
        raise StartupError(
            f"{directory} has {free >> 20} MiB free, but Spark's scratch files need {SCRATCH_BYTES >> 20} MiB: "
            "free some space or set TMPDIR."
        )


def listen_on(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; StartupError when the address can't be had. `setting`: which property asked for it."""
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        if listener is not None:
            listener.close()
        advice = f"end what uses it or change {setting}" if error.errno == errno.EADDRINUSE else f"change {setting}"
        raise StartupError(f"Can't listen on {host or '*'}:{port} ({error.strerror or error}): {advice}.") from None
    listener.setblocking(False)
    return listener
