"""Runs one of Kafka's Java programs, with a class path, a log file and a watchdog."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from deploy.local.errors import LocalError
from deploy.local.java import java_command
from deploy.local.kafka_jars import KAFKA_VERSION, class_path, libs
from deploy.local.kafka_releases import release
from deploy.local.watchdog import watchdog

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


class JavaProcess:
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
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        # Native libraries (lz4, snappy) are unpacked beside `log`, because they stay after a kill.
        command = java_arguments(main_class, heap=heap, options=options, version=version)
        command = [command[0], f"-Djava.io.tmpdir={log.parent}", *command[1:], *arguments]
        guard = watchdog()
        with log.open("ab") as output:
            # Its own session: Ctrl-C must not stop the brokers before their clients have ended.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        guard.guard_process(self._process.pid)
        # psutil refuses to signal a process id that belongs to another program now.
        self._tree = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        """The process id of the Java virtual machine."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process exists, suspended or not."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM, then kill -9 if it has not ended after `seconds`. Returns the exit code."""
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            return self._wait(seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """kill -9, and waits until it is gone."""
        self._signal(signal.SIGKILL)
        return self._wait(30)

    def suspend(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT; nothing happens if it was not suspended."""
        self._signal(signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """User and system time of the process and its descendants so far; 0.0 when it has ended."""
        total = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self._tree, *self._tree.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def failure(self) -> LocalError:
        """An error with the most telling line of the log about why the program ended."""
        return LocalError(f"{self.name} did not start: {last_complaint(self.log)} (log: {self.log})")

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self, seconds: float) -> int:
        code = self._process.wait(seconds)
        watchdog().forget_process(self._process.pid)
        return code


def last_complaint(log: Path) -> str:
    """The most telling line of a Java log: the deepest cause, else the last error, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    for signs in (("Caused by:",), ("ERROR", "FATAL", "Exception"), ("",)):
        found = [line for line in lines if any(sign in line for sign in signs)]
        if found:
            return found[-1][:500]
    return "its log is empty"
