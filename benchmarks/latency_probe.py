"""Processes of their own that send stamped records and receive them: `python -m benchmarks.latency_probe receive|send …`.

A record begins with a letter, `W` while warming up and `M` when it is measured, its number, and the time it was sent. A
receiver prints `ready`, and at the end of its standard input the number, sending and arrival of every measured record.
Sender and receivers read one clock, this machine's monotonic one: it is the same in all processes, and nobody sets it.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.pairing import Arrival
from deploy.local import LocalCluster
from deploy.local.watchdog import watchdog

_STAMP: Final = struct.Struct(">cqd")
WARM: Final = b"W"
MEASURED: Final = b"M"
AFTER_LAST_S: Final = 3.0
# librdkafka's default, too.
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"


class Receiver:
    """A consuming process; between entering and `arrivals` it collects."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int, isolation: str = READ_COMMITTED) -> None:
        command = [cluster.bootstrap_servers, topic, str(partitions), isolation]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.latency_probe", "receive", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        watchdog().guard_process(self._process.pid)

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the measuring consumer did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        watchdog().forget_process(self._process.pid)

    def arrivals(self) -> list[Arrival]:
        """Every measured record received, in the order of arrival; ends the process."""
        return [
            (int(number), float(sent), float(arrived))
            for number, sent, arrived in json.loads(self._process.communicate(timeout=60)[0])
        ]


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: records a second, seconds that don't count, seconds that do, bytes a record."""

    rate: int
    warm_up: float
    seconds: float
    size: int

    @property
    def warm(self) -> int:
        """Records that don't count."""
        return round(self.rate * self.warm_up)

    @property
    def measured(self) -> int:
        """Records that do."""
        return round(self.rate * self.seconds)


def send(cluster: LocalCluster, topic: str, partitions: int, load: Load) -> None:
    """Sends from a process of its own; returns when the last record is acknowledged."""
    arguments = [cluster.bootstrap_servers, topic, partitions, load.rate, load.warm_up, load.seconds, load.size]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.latency_probe", "send", *map(str, arguments)])
    watchdog().guard_process(process.pid)
    try:
        if process.wait(load.warm_up + load.seconds + 60):
            raise RuntimeError("the measuring producer failed")
    finally:
        process.kill()
        process.wait()
        watchdog().forget_process(process.pid)


def _send(bootstrap: str, topic: str, partitions: int, load: Load) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    filler = b"x" * (load.size - _STAMP.size)
    began = time.monotonic()
    for number in range(load.warm + load.measured):
        ahead = began + number / load.rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        stamp = _STAMP.pack(WARM if number < load.warm else MEASURED, number, time.monotonic())
        producer.produce(topic, stamp + filler, partition=number % partitions)
        producer.poll(0)
    if producer.flush(30):
        raise RuntimeError("the source broker did not take all records")


def _receive(bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
    config = {"bootstrap.servers": bootstrap, "group.id": "latency", "enable.auto.commit": False}
    consumer = Consumer(config | {"isolation.level": isolation})
    # From the present end: nothing that was sent before counts.
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    for each in wanted:
        each.offset = consumer.get_watermark_offsets(each, timeout=20)[1]
    consumer.assign(wanted)
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print("ready", flush=True)
    found = []
    while not over.is_set():
        message = consumer.poll(0.1)
        now = time.monotonic()
        if message is not None and not message.error():
            kind, number, sent = _STAMP.unpack_from(message.value())
            if kind == MEASURED:
                found.append((number, sent, now))
    print(json.dumps(found), flush=True)
    consumer.close()


if __name__ == "__main__":
    what, bootstrap_servers, topic_name, partition_count, *numbers = sys.argv[1:]
    if what == "send":
        rate, warm_up_s, measured_s, size = numbers
        load = Load(int(rate), float(warm_up_s), float(measured_s), int(size))
        _send(bootstrap_servers, topic_name, int(partition_count), load)
    else:
        _receive(bootstrap_servers, topic_name, int(partition_count), *numbers)
