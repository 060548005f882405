"""A shell as a user of the guides has it: commands as written, with hosts and paths of this machine in their place."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

import psutil

from deploy.local import LocalCluster
from deploy.local.java_process import java_arguments
from deploy.local.watchdog import watchdog
from tests.e2e.ends import wait_ends
from tests.paths import ROOT
from tests.waiting import WaitTimedOut, wait_for_state

# Kafka's scripts, and the class that each starts.
KAFKAS_TOOLS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


class Started:
    """A program that a command has started in the background; its standard output is in `file`, errors beside it."""

    def __init__(self, command: str, process: subprocess.Popen[bytes], file: Path) -> None:
        self.command = command
        self.process = process
        self._file = file

    def output(self) -> str:
        """Its standard output."""
        return self._file.read_text(errors="replace")

    def text(self) -> str:
        """All that it has said, errors behind the rest."""
        return self.output() + errors_file(self._file).read_text(errors="replace")

    def wait_copied(self, cluster: LocalCluster, topic: str, end: int) -> None:
        """Until partition 0 ends there. AssertionError with the program's last lines if it doesn't."""
        try:
            wait_ends(cluster, topic, {0: end})
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()[-3000:]}") from None

    def check_alive(self) -> None:
        """AssertionError with its last lines if it has ended."""
        code = self.process.poll()
        assert code is None, f"{self.command} ended with code {code}:\n{self.text()[-3000:]}"

    def wait_ended(self, seconds: float = 180.0) -> int:
        """The exit code, once it has ended."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise WaitTimedOut(f"not within {seconds:g} s: {self.command} has ended\n{self.text()[-3000:]}") from None
        watchdog().forget_process(self.process.pid)
        return code

    def interrupt(self) -> int:
        """Ctrl-C: SIGINT to all that the command started; the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.wait_ended()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.wait_ended()

    def close(self) -> None:
        """Ends it and what it has started, whatever state it is in."""
        tree: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            tree = psutil.Process(self.process.pid).children(recursive=True)
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(12)
        for each in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        if self.process.poll() is None:
            self.process.kill()
        self.wait_ended()


def errors_file(file: Path) -> Path:
    """Where a program's standard error goes whose output is in `file`."""
    return file.with_suffix(".errors")


class Shell:
    """Runs commands in `directory`, whose bin/ has this repository's scripts and Kafka's tools, and whose .venv is its own.

    `places`: text of a command → what stands there on this machine; the longest is replaced first. A context manager, which
    ends what was started.
    """

    def __init__(
        self, directory: Path, places: Mapping[str, str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.places = dict(places)
        self._environment = {**os.environ, **(environment or {})}
        self._started: list[Started] = []
        binaries = directory / "bin"
        binaries.mkdir(exist_ok=True)
        (directory / ".venv").symlink_to(ROOT / ".venv")
        for script in (ROOT / "bin").iterdir():
            (binaries / script.name).symlink_to(script)
        for name, main_class in KAFKAS_TOOLS.items():
            java = [*java_arguments(main_class, heap="256m")]
            java.insert(1, f"-Djava.io.tmpdir={directory}")
            (binaries / name).write_text(f'#!/bin/sh\nexec {shlex.join(java)} "$@"\n')
            (binaries / name).chmod(0o755)
        self._environment["PATH"] = f"{binaries}:{ROOT / '.venv' / 'bin'}:{self._environment['PATH']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._started):
            each.close()

    def here(self, text: str, places: Mapping[str, str] | None = None) -> str:
        """`text` with what stands in its places here."""
        known = {**self.places, **(places or {})}
        found = re.compile("|".join(re.escape(each) for each in sorted(known, key=len, reverse=True)))
        return found.sub(lambda match: known[match[0]], text)

    def write(self, name: str, text: str) -> Path:
        """A file of the guide, with its places filled in."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(text))
        return path

    def copy(self, files: Iterable[Path], folder: str) -> None:
        """Files of the repository, in the same way."""
        for file in files:
            self.write(f"{folder}/{file.name}", file.read_text("utf-8"))
            shutil.copymode(file, self.directory / folder / file.name)

    def run(
        self,
        command: str,
        places: Mapping[str, str] | None = None,
        *,
        typed: str = "",
        folder: str = "",
        seconds: float = 360.0,
    ) -> str:
        """What a command says that has to succeed; `typed`: what comes from the keyboard, `folder`: where it is run."""
        done = subprocess.run(
            ["bash", "-c", self.here(command, places)],
            cwd=self.directory / folder,
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(
        self, command: str, places: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> Started:
        """Starts a command that goes on."""
        file = self.directory / f"started-{len(self._started)}.output"
        with file.open("wb") as output, errors_file(file).open("wb") as errors:
            process = subprocess.Popen(
                ["bash", "-c", self.here(command, places)],
                cwd=self.directory,
                env={**self._environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        watchdog().guard_process(process.pid)
        started = Started(command, process, file)
        self._started.append(started)
        return started

    def wait_for_text(self, started: Started, words: str, seconds: float = 360.0) -> None:
        """Until a program says so."""

        def said() -> bool:
            if words in started.text():
                return True
            started.check_alive()
            return False

        try:
            wait_for_state(said, f"{started.command} says {words!r}", seconds)
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}; it ends with:\n{started.text()[-3000:]}") from None
