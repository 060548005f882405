"""MirrorMaker 1 as a process, ours and Kafka 3.9's: the same command line, the same files, one log each."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import psutil
from confluent_kafka import Producer

from deploy.local import LocalCluster
from deploy.local.broker_config import write_properties
from deploy.local.java_process import java_arguments
from deploy.local.watchdog import watchdog
from tests.brokers import flushed
from tests.e2e.reading import Record, records
from tests.paths import ROOT
from tests.waiting import WaitTimedOut, wait_for, wait_for_state

GROUP_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
JAVA_RELEASE: Final = "3.9.1"
OURS: Final = (str(ROOT / "bin" / "kafka-mirror-maker.sh"),)
# Quick enough for a test, and no shorter than brokers allow.
SESSION_MS: Final = "6000"
_RUNNING: Final = re.compile(r"Task (\S+) is RUNNING with")
# Recent: brokers delete old records as soon as they look, half a minute after their start.
_FIRST_MS: Final = int(time.time() * 1000)


def consumer_properties(cluster: LocalCluster, group: str, **more: str) -> dict[str, str]:
    """A consumer's file for MirrorMaker; `more` have `_` for `.` and win."""
    return {
        **cluster.client_properties(),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": "500",
        "metadata.max.age.ms": "2000",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class MirrorMaker:
    """One process; a context manager. `java`: Kafka's own. It can be started again after its end.

    `producer`: over the target's client properties; `producer_file`: the whole file instead. `command` starts ours.
    """

    def __init__(
        self,
        sources: Sequence[Mapping[str, str]],
        target: LocalCluster,
        *options: str,
        java: bool = False,
        producer: Mapping[str, str] | None = None,
        producer_file: Mapping[str, str] | None = None,
        command: Sequence[str] = OURS,
    ) -> None:
        self._command = command
        self.java = java
        self.directory = Path(tempfile.mkdtemp(prefix="mirror-maker-"))
        watchdog().guard_directory(str(self.directory))
        self.log_file = self.directory / "program.log"
        files = [write_properties(self.directory / f"source{n}.properties", each) for n, each in enumerate(sources)]
        written = producer_file or {**target.client_properties(), **(producer or {})}
        target_file = write_properties(self.directory / "target.properties", written)
        self.arguments = [
            *(argument for each in files for argument in ("--consumer.config", str(each))),
            *("--producer.config", str(target_file)),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Starts it, and returns at once."""
        command = (
            java_arguments("kafka.tools.MirrorMaker", heap="256m", version=JAVA_RELEASE) if self.java else self._command
        )
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self.arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        watchdog().guard_process(self._process.pid)
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process."""
        assert self._process is not None, "it was not started"
        return self._process

    def stop(self, seconds: float = 180.0) -> int:
        """SIGTERM, and wait; the exit code."""
        self.process.terminate()
        return self.wait_ended(seconds)

    def kill(self) -> None:
        """kill -9 of the process; what it started ends by itself."""
        self.process.send_signal(signal.SIGKILL)
        self.wait_ended()

    def wait_ended(self, seconds: float = 180.0) -> int:
        """Waits until it has ended; the exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise WaitTimedOut(f"not within {seconds:g} s: MirrorMaker has ended\n{self.log_text()}") from None
        watchdog().forget_process(self.process.pid)
        return code

    def log_text(self) -> str:
        """All that it has said."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def wait_logged(self, text: str, seconds: float = 270.0) -> None:
        """Waits until the log has this text."""
        try:
            wait_for_state(
                lambda: text in self.log_text() or self.process.poll() is not None, f"logged: {text}", seconds
            )
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}\n{self.log_text()}") from None
        assert text in self.log_text(), f"MirrorMaker has ended:\n{self.log_text()}"

    def wait_running(self, tasks: int = 1, seconds: float = 360.0) -> None:
        """Waits until so many tasks copy: on a busy machine Spark takes most of a minute to start."""

        def running() -> bool:
            assert self.process.poll() is None, f"MirrorMaker has ended:\n{self.log_text()}"
            return len(set(_RUNNING.findall(self.log_text()))) >= tasks

        try:
            wait_for_state(running, f"{tasks} tasks are RUNNING", seconds)
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}\n{self.log_text()}") from None

    def close(self) -> None:
        """Ends it, whatever state it is in, and removes its files."""
        if self._process is not None and self._process.poll() is None:
            children: list[psutil.Process] = []
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.terminate()
            try:
                self._process.wait(12)
            except subprocess.TimeoutExpired:
                self._process.kill()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            self.wait_ended()
        shutil.rmtree(self.directory, ignore_errors=True)
        watchdog().forget_directory(str(self.directory))


def unique(name: str) -> str:
    """A name that no other test has."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def produce(cluster: LocalCluster, topic: str, first: int, count: int, partitions: int = 3) -> set[bytes]:
    """Numbered records with keys and headers, in turn into the partitions; their values."""
    producer = Producer({**cluster.librdkafka(), "linger.ms": 5})
    values = [b"%s-%d" % (cluster.name.encode(), number) for number in range(first, first + count)]
    for number, value in enumerate(values, first):
        producer.produce(
            topic,
            value,
            b"k%d" % (number % 7),
            number % partitions,
            timestamp=_FIRST_MS + number,
            headers=[("h", value)],
        )
    flushed(producer)
    return set(values)


def copied(cluster: LocalCluster, topic: str, partitions: int = 3) -> list[list[Record]]:
    """What each partition has; nothing if the topic isn't there."""
    if topic not in cluster.admin().list_topics(timeout=60).topics:
        return [[] for _ in range(partitions)]
    return [list(records(cluster, topic, partition)) for partition in range(partitions)]


def values(cluster: LocalCluster, topic: str, partitions: int = 3) -> list[bytes | None]:
    """All values on the cluster, as often as they are there."""
    return [record.value for of_partition in copied(cluster, topic, partitions) for record in of_partition]


def wait_copied(cluster: LocalCluster, topic: str, expected: set[bytes], partitions: int = 3) -> None:
    """Waits until the cluster has all of these values."""
    wait_for(lambda: expected <= set(values(cluster, topic, partitions)), f"{topic} is copied")


def offsets(cluster: LocalCluster, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """What kafka-consumer-groups.sh shows: committed offset, lag and member of each partition."""
    arguments = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}", "--describe", "--group", group]
    rows = [line.split() for line in cluster.run_tool(GROUP_TOOL, arguments).splitlines()]
    return {
        (row[1], int(row[2])): (int(row[3]), int(row[5]), row[6])
        for row in rows
        if row[:1] == [group] and row[3] != "-"
    }
