"""Checks of the machine before a worker starts anything: Java, room for scratch files, free ports."""

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
from typing import Any, Final

from mirror_connect.app.errors import StartupError

OLDEST_JAVA: Final = 17
SCRATCH_BYTES: Final = 64 << 20
JAVA_ANSWERS_S: Final = 20
OPEN_FILES: Final = 65_536
# Spark 4.2 starts its JVM with --add-modules for this one; a JVM without it exits at once.
SPARK_MODULE: Final = "jdk.incubator.vector"


def check_java() -> None:
    """Raises StartupError unless Spark can use the `java` of JAVA_HOME or PATH.

    The file `release` of a JDK or JRE names its version and modules. Where it says nothing, Java is asked itself: that takes
    two JVMs, while Spark's own is coming up.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"in JAVA_HOME={home}" if home else "on the PATH"
    if java is None or not os.access(java, os.X_OK):
        raise StartupError(f"No java {where}: install Java {OLDEST_JAVA} or newer, Spark needs it, or set JAVA_HOME.")
    if _is_fine_by_its_release(java):
        return
    version = re.search(r'version "(?:1\.)?(\d+)', _output_of(java, "-version"))
    if version is None or int(version.group(1)) < OLDEST_JAVA:
        found = version.group(1) if version else "unknown"
        raise StartupError(
            f"{java} is Java {found}, but Spark needs Java {OLDEST_JAVA} or newer: set JAVA_HOME to one."
        )
    if not re.search(rf"^{re.escape(SPARK_MODULE)}(@|\s|$)", _output_of(java, "--list-modules"), re.MULTILINE):
        raise StartupError(
            f"{java} has no module {SPARK_MODULE}, without which Spark's JVM does not start: install a whole JDK or JRE "
            f"{OLDEST_JAVA} or newer, not one cut down by jlink, or set JAVA_HOME to one."
        )


def _is_fine_by_its_release(java: str) -> bool:
    try:
        release = (Path(java).resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return False
    said = dict(re.findall(r'^(\w+)="(.*)"$', release, re.MULTILINE))
    version = re.match(r"\d+", said.get("JAVA_VERSION", ""))
    return version is not None and int(version[0]) >= OLDEST_JAVA and SPARK_MODULE in said.get("MODULES", "").split()


def _output_of(java: str, option: str) -> str:
    try:
        done = subprocess.run([java, option], capture_output=True, text=True, timeout=JAVA_ANSWERS_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise StartupError(
            f"{java} {option} does not work ({type(error).__name__}): install Java {OLDEST_JAVA} or newer."
        ) from None
    return done.stderr + done.stdout


def allow_open_files() -> None:
    """Raises the limit of open files as far as this machine allows, to at most 65,536. A JVM does that for itself.

    With the usual limit of 1,024, a thousand clients that send half a request would leave no files for anything else.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def leave_no_core() -> None:
    """Disables core dumps of the worker and its children: its memory holds logins.

    If the kernel pipes core dumps to a program, it ignores the limit; with an empty filter there is nothing to dump.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # another system than Linux
        Path("/proc/self/coredump_filter").write_text("0")


def check_scratch() -> None:
    """Raises StartupError if the temporary directory can't hold Spark's scratch files."""
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
    """A listening socket; StartupError if the address can't be used. `setting`: the property that asks for it."""
    listener: socket.socket | None = None
    try:
        listener, address = _socket_for(host, port)
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


def _socket_for(host: str, port: int) -> tuple[socket.socket, Any]:
    """A socket and the address to bind it to. Without a host that is every address of IPv6 and IPv4, as Jetty binds it."""
    if not host:
        if socket.has_dualstack_ipv6():
            listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            return listener, ("::", port)
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("0.0.0.0", port)
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.socket(family, kind, protocol), address
