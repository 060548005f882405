"""Runs one of Kafka's Java programs, with a class path and a log file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.guarded_process import GuardedProcess
from deploy.local.java import java_command
from deploy.local.kafka_jars import KAFKA_VERSION, class_path, libs
from deploy.local.kafka_releases import release

# A test's broker lives for seconds: only its start time and memory matter.
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
BROKER: Final = "kafka.Kafka"
CONNECT: Final = "org.apache.kafka.connect.cli.ConnectDistributed"


def class_archive(main_class: str, version: str = KAFKA_VERSION) -> Path:
    """The archive of the program's classes, also before it exists (deploy/local/class_archive.py makes it).

    Connect and MirrorMaker share one. All others use the broker's, which also has most classes of clients.
    """
    return libs(version).with_name(
        "connect.jsa" if main_class.startswith("org.apache.kafka.connect.") else "broker.jsa"
    )


def java_arguments(
    main_class: str, *, heap: str, options: Sequence[str] | None = None, version: str = KAFKA_VERSION
) -> list[str]:
    """The command before the program's own arguments. By default `options` make Java start soon and stay small."""
    return [
        *java_command(),
        f"-Xmx{heap}",
        *(_quick(main_class, version) if options is None else options),
        "-Djava.awt.headless=true",
        release(version).logging_option,
        *("-cp", class_path(version), main_class),
    ]


def _quick(main_class: str, version: str) -> list[str]:
    archive = class_archive(main_class, version)
    # An archive that doesn't fit is ignored without a message.
    return [*QUICK, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if archive.is_file() else [*QUICK]


class JavaProcess(GuardedProcess):
    """A started Java program. Standard output and error go to `log`."""

    def __init__(
        self,
        name: str,
        main_class: str,
        arguments: Sequence[str],
        *,
        log: Path,
        heap: str = "512m",
        options: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        version: str = KAFKA_VERSION,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        # Native libraries (lz4, snappy) are unpacked beside `log`, because they stay after a kill.
        command = java_arguments(main_class, heap=heap, options=options, version=version)
        command = [command[0], f"-Djava.io.tmpdir={log.parent}", *command[1:], *arguments]
        super().__init__(name, command, log=log, environment={**os.environ, **(environment or {})})

    def failure(self) -> LocalError:
        """An error with the most telling line of the log about why the program ended."""
        return LocalError(f"{self.name} did not start: {last_complaint(self.log)} (log: {self.log})")


def last_complaint(log: Path) -> str:
    """The most telling line of a Java log: the deepest cause, else the last error, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for signs in (("Caused by:",), ("ERROR", "FATAL", "Exception"), ("",)):
        found = [line for line in lines if any(sign in line for sign in signs)]
        if found:
            return found[-1][:500]
    return "its log is empty"
