"""`make demo`: shows the product at work and proves what it shows.

Stays up until Ctrl-C. With DEMO_EXIT=1, or when standard output is no terminal, it ends by itself; the exit code is 0 only
if everything it showed was true.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from deploy.demo.run_directory import fill_in
from deploy.demo.worker import WorkerProcess
from deploy.local import LocalCluster, free_port, start_all

USERS_1: Final = {
    "admin": "admin-secret",
    "kafkaui": "kafkaui-secret",
    "connect": "connect1-secret",
    "mirrormaker": "mirrormaker1-secret",
}
USERS_2: Final = {
    "admin": "admin-secret",
    "kafkaui": "kafkaui-secret",
    "connect": "connect2-secret",
    "mirrormaker": "mirrormaker2-secret",
}
SECRETS: Final = (*USERS_1.values(), *USERS_2.values(), "init-secret", "health-secret", "vscode-secret")
CONNECTOR: Final = "mirror-source-connector"
PARTITIONS: Final = 2
LINES: Final = 40
PATIENCE_S: Final = 60.0


class Show:
    """Prints what happens, and keeps what was proven."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.false: list[str] = []

    def step(self, text: str) -> None:
        """A line with the seconds since the start."""
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    def proven(self, what: str, true: bool) -> None:
        """A claim and whether it held."""
        print(f"          {'✔' if true else '✘'} {what}", flush=True)
        if not true:
            self.false.append(what)


Record = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def read_all(cluster: LocalCluster, topic: str, count: int, show: Show | None = None) -> dict[int, list[Record]]:
    """Records by partition in order, until `count` were read or the patience is over; prints them as they come."""
    consumer = Consumer({**cluster.librdkafka("admin"), "group.id": "demo-reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
    until = time.monotonic() + PATIENCE_S
    try:
        while sum(map(len, found.values())) < count and time.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if error := message.error():
                if error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._PARTITION_EOF):
                    raise RuntimeError(f"reading {topic}: {error.str()}")
                continue
            headers = tuple(message.headers() or ())
            record = (message.offset(), message.key(), message.value(), headers, message.timestamp()[1])
            found[message.partition()].append(record)
            if show:
                value = (message.value() or b"").decode(errors="replace")
                show.step(f"kafka-2  {topic}-{message.partition()} @ {message.offset():<3} {value[:90]}")
    finally:
        consumer.close()
    return found


def real_lines() -> list[bytes]:
    """Some lines of real text: the module that this Python calls `this`' neighbour, `contextlib`."""
    text = Path(contextlib.__file__).read_bytes().splitlines()
    return [line for line in text if line.strip()][:LINES]


def produce(cluster: LocalCluster, lines: list[bytes], first: int = 0) -> None:
    """Writes lines to `test` on kafka-1, with keys and a header."""
    producer = Producer({**cluster.librdkafka("admin"), "compression.type": "lz4", "linger.ms": 5})
    for number, line in enumerate(lines, first):
        producer.produce("test", line, str(number).encode(), headers={"line": str(number).encode()})
    if producer.flush(PATIENCE_S):
        raise RuntimeError("kafka-1 did not take the demo's records")


def deploy_connectors(directory: Path, url: str) -> None:
    """Runs the article's deploy-connectors.sh."""
    environment = {
        **os.environ,
        "CONNECT_REST_API": url,
        "CONNECT_USERNAME": "init",
        "CONNECT_PASSWORD": "init-secret",
    }
    done = subprocess.run(
        ["bash", directory / "deploy-connectors.sh"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    print(
        "".join(f"          | {line}\n" for line in done.stdout.splitlines() if line.startswith(("[", "HTTP"))), end=""
    )
    if done.returncode:
        raise RuntimeError(f"deploy-connectors.sh failed: {(done.stdout + done.stderr).strip().splitlines()[-1]}")


def wait_until_running(rest: httpx.Client, worker: WorkerProcess) -> dict[str, object]:
    """The connector's status when it and its task are RUNNING, or the last one seen."""
    until = time.monotonic() + PATIENCE_S
    status: dict[str, object] = {}
    while time.monotonic() < until:
        worker.check_alive()
        answer = rest.get(f"/connectors/{CONNECTOR}/status")
        if answer.status_code == httpx.codes.OK:
            status = answer.json()
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]  # type: ignore[index,attr-defined]
            if len(states) > 1 and set(states) == {"RUNNING"}:
                break
            if "FAILED" in states:
                break
        time.sleep(0.2)
    return status


def prove(show: Show, source: LocalCluster, target: LocalCluster, rest: httpx.Client, directory: Path) -> None:
    """Compares source and target record by record, and looks for secrets where none may be."""
    count = LINES
    copied = read_all(target, "kafka-1.test", count, show)
    original = read_all(source, "test", count)
    show.proven(f"{count} records are on kafka-2, none missing, none twice", sum(map(len, copied.values())) == count)
    same = {p: [r[1:] for r in records] for p, records in copied.items()} == {
        p: [r[1:] for r in records] for p, records in original.items()
    }
    show.proven("key, value, headers, timestamp, partition and order are the same", same)
    status = rest.get(f"/connectors/{CONNECTOR}/status").json()
    show.proven(
        "connector and task are RUNNING",
        all(each["state"] == "RUNNING" for each in (status["connector"], *status["tasks"])) and bool(status["tasks"]),
    )
    show.proven(
        "without credentials the REST answers 401", httpx.head(rest.base_url).status_code == httpx.codes.UNAUTHORIZED
    )
    log = (directory / "worker.log").read_text(errors="replace")
    answers = "".join(
        rest.get(path).text for path in (f"/connectors/{CONNECTOR}", "/connectors?expand=info&expand=status")
    )
    show.proven("no password is in the worker's log or in a REST answer", not any(s in log + answers for s in SECRETS))


def keep_going(show: Show, source: LocalCluster, target: LocalCluster, stop: threading.Event) -> None:
    """A line a second, printed as it arrives, until Ctrl-C."""
    number = 2 * LINES
    lines = real_lines()
    consumer = Consumer({**target.librdkafka("admin"), "group.id": "demo-tail", "enable.auto.commit": False})
    consumer.assign(
        [
            TopicPartition("kafka-1.test", p, consumer.get_watermark_offsets(TopicPartition("kafka-1.test", p))[1])
            for p in range(PARTITIONS)
        ]
    )
    next_line = time.monotonic()
    while not stop.is_set():
        if time.monotonic() >= next_line:
            produce(source, [lines[number % LINES]], number)
            number, next_line = number + 1, next_line + 1.0
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            text = (message.value() or b"").decode(errors="replace")
            show.step(f"kafka-2  kafka-1.test-{message.partition()} @ {message.offset():<3} {text[:90]}")
    consumer.close()


@contextlib.contextmanager
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """kafka-1 and kafka-2 with the article's users, both starting at the same time."""
    source = LocalCluster("kafka-1", listeners=["SASL_PLAINTEXT"], users=USERS_1)
    target = LocalCluster("kafka-2", listeners=["SASL_PLAINTEXT"], users=USERS_2)
    try:
        start_all(source, target)
        yield source, target
    finally:
        source.close()
        target.close()


def run(show: Show, directory: Path, stop: threading.Event, *, stay: bool) -> None:
    """The whole demo; RuntimeError where it can't go on."""
    show.step("starting two Kafka clusters, kafka-1 and kafka-2, with SASL_PLAINTEXT/PLAIN users")
    with clusters() as (source, target):
        show.step(f"kafka-1 is up at {source.bootstrap_servers}, kafka-2 at {target.bootstrap_servers}")
        source.create_topic("test", partitions=PARTITIONS)
        target.create_topic("test", partitions=PARTITIONS)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        fill_in(directory, {"KAFKA1": source.bootstrap_servers, "KAFKA2": target.bootstrap_servers, "PORT": str(port)})
        environment = {
            "KAFKA_OPTS": f"-Djava.security.auth.login.config={directory}/restapi-jaas.conf",
            "CONNECT_ADVERTISED_HOST": "127.0.0.1",
        }
        started = time.monotonic()
        with (
            WorkerProcess(directory / "connect.properties", directory / "worker.log", environment) as worker,
            httpx.Client(base_url=url, auth=("init", "init-secret"), timeout=10) as rest,
        ):
            show.step("starting the worker: bin/connect-distributed.sh connect.properties")
            deploy_connectors(directory, url)
            worker.check_alive()
            show.step(f"connector deployed {time.monotonic() - started:.1f} s after the worker's start")
            produce(source, real_lines())
            show.step(f"wrote {LINES} lines to test on kafka-1; waiting for them in kafka-1.test on kafka-2")
            wait_until_running(rest, worker)
            prove(show, source, target, rest, directory)
            if show.false:
                raise RuntimeError(f"not true: {'; '.join(show.false)}")
            show.step("all of it is true. Look around:")
            for path in ("/connectors", f"/connectors/{CONNECTOR}/status", f"/connectors/{CONNECTOR}/topics"):
                print(f"          curl -u init:init-secret {url}{path}")
            print(f"          the worker's log: {directory}/worker.log", flush=True)
            if stay:
                show.step("a line a second goes on, until Ctrl-C")
                keep_going(show, source, target, stop)
            show.step("stopping")
            code = worker.stop()
            show.proven("the worker stopped cleanly", code == 0)


def main() -> int:
    """Entry point of `python -m deploy.demo`."""
    show = Show()
    stop = threading.Event()
    stay = sys.stdout.isatty() and os.environ.get("DEMO_EXIT") != "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set() if stay and not stop.is_set() else sys.exit(130))
    for tool in ("bash", "curl"):
        if shutil.which(tool) is None:
            print(f"The demo's deploy-connectors.sh needs {tool}, which is not installed.", file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(prefix="mirror-connect-demo-") as directory:
        try:
            run(show, Path(directory), stop, stay=stay)
        except (RuntimeError, httpx.HTTPError, subprocess.TimeoutExpired) as error:
            print(f"The demo failed: {error}", file=sys.stderr)
            log = Path(directory) / "worker.log"
            if log.exists():
                print(
                    "".join(f"  | {line}\n" for line in log.read_text(errors="replace").splitlines()[-30:]),
                    file=sys.stderr,
                )
            return 1
    return 1 if show.false else 0


if __name__ == "__main__":
    sys.exit(main())
