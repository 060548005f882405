"""Records that a user's function filters and masks on their way, with real Spark and brokers."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any, Final

import httpx
import psutil
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from tests.brokers import messages
from tests.e2e.ends import end_offsets
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import last_message
from tests.e2e.sql_processes import kill_some, processes
from tests.seeds import chance
from tests.waiting import WaitTimedOut, wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.long]

PARTITIONS: Final = 3
SALT: Final = "pepper-and-salt"
MODULE: Final = """
import hashlib
import json
import time

import pyarrow as pa


def mask(records):
    salt = records["secrets"][0].as_py()["SALT"]
    values, keep = [], []
    for text in records["value"].to_pylist():
        row = None if text is None else json.loads(text)
        if row is not None:
            row["email"] = hashlib.sha256((salt + row["email"]).encode()).hexdigest()
        values.append(None if row is None else json.dumps(row).encode())
        keep.append(row is None or row["country"] == "EU")
    return {"value": pa.array(values, pa.binary()), "keep": keep}


def endless(records):
    while b"endless" in records["value"].to_pylist():
        time.sleep(60)
    return {}


def short(records):
    return {"value": [b"x"] * (len(records) + 1)}
"""


def value_of(number: int) -> dict[str, Any]:
    return {"id": number, "country": ("EU", "US")[number % 2], "email": f"u{number}@example.org", "note": "x" * 80}


class Link:
    """JSON records at the source, each tenth a tombstone, and what of them is on the target."""

    def __init__(self, source: LocalCluster, target: LocalCluster, product: Product) -> None:
        self.topic = f"python-{time.time_ns()}"
        self.source, self.target, self.product = source, target, product
        self.remote = f"A.{self.topic}"
        self.count = 0
        source.create_topic(self.topic, PARTITIONS)
        self._producer = Producer({**source.librdkafka(), "linger.ms": 5, "enable.idempotence": True})

    def trace(self) -> str:
        """Of the first task."""
        return "".join(each.get("trace", "") for each in self.product.status(self.topic).get("tasks", []))

    def config(self, function: str = "masking:mask") -> dict[str, str]:
        return {
            **mirror_config(self.source, self.target, self.topic),
            "spark.transform.python": function,
            "spark.transform.secret.SALT": SALT,
        }

    def put(self, function: str = "masking:mask", tolerance: str = "none") -> None:
        self.product.put(self.topic, {**self.config(function), "errors.tolerance": tolerance})

    def write(self, count: int, value: bytes | None = None) -> None:
        """So many records more in each partition."""
        for number in range(self.count, self.count + count):
            content = None if number % 10 == 7 else json.dumps(value_of(number)).encode()
            for partition in range(PARTITIONS):
                self._producer.produce(self.topic, value or content, b"%d" % number, partition=partition)
            self._producer.poll(0)
        self.count += count
        assert self._producer.flush(120) == 0

    @property
    def wanted(self) -> list[int]:
        """The numbers that are kept of each partition."""
        return [number for number in range(self.count) if number % 10 == 7 or number % 2 == 0]

    def copied(self) -> int:
        with contextlib.suppress(Exception):
            return sum(end_offsets(self.target, self.remote).values())
        return 0

    def wait_all(self) -> None:
        """Until the last kept record of each partition is there. How many there are says less: some may come twice."""
        last = self.wanted[-1]

        def complete() -> bool:
            self.check_not_failed()
            return all(self.last(partition) == last for partition in range(PARTITIONS))

        wait_for(
            complete,
            f"record {last} of each partition is copied",
            180,
            arrived=self.copied,
        )

    def check_not_failed(self) -> None:
        """Killed processes are no failure."""
        assert "FAILED" not in self.product.states(self.topic), self.product.status(self.topic)

    def failed_with(self, text: str) -> str | None:
        """The trace of the FAILED task, if this is in it."""
        tasks = self.product.status(self.topic).get("tasks", [])
        traces = [each.get("trace", "") for each in tasks if each["state"] == "FAILED"]
        return next((each for each in traces if text in each), None)

    def last(self, partition: int) -> int | None:
        """The number of the last record on the target."""
        message = last_message(self.target, self.remote, partition)
        return None if message is None else int(message.key() or b"")

    def check(self) -> None:
        """All kept records are there, masked and in order."""
        wanted = self.wanted
        following = dict(itertools.pairwise(wanted))
        for partition in range(PARTITIONS):
            numbers = []
            for message in messages(self.target, self.remote, partition):
                number = int(message.key() or b"")
                numbers.append(number)
                content = message.value()
                if number % 10 == 7:
                    assert content is None
                    continue
                masked = hashlib.sha256(f"{SALT}u{number}@example.org".encode()).hexdigest()
                assert json.loads(content or b"") == {**value_of(number), "email": masked}
            assert sorted(set(numbers)) == wanted
            for before, after in itertools.pairwise(numbers):
                assert after == following.get(before) or after <= before


@pytest.fixture(scope="module")
def worker(target_cluster: LocalCluster) -> Iterator[Product]:
    made = Product(target_cluster, group="python", properties={"spark.transform.python.allowed": "masking"})
    plugins = made.directory / "plugins"
    plugins.mkdir()
    (plugins / "masking.py").write_text(MODULE)
    with made:
        yield made


@pytest.fixture
def link(source_cluster: LocalCluster, target_cluster: LocalCluster, worker: Product) -> Iterator[Link]:
    made = Link(source_cluster, target_cluster, worker)
    yield made
    worker.delete(made.topic)


def _functions(product: Product) -> set[psutil.Process]:
    """The processes of functions: below the worker, or below the executors of a cluster."""
    found = set()
    for parts in product.parts().values():
        for part in parts:
            with contextlib.suppress(psutil.Error):
                found |= {each for each in part.children(recursive=True) if _is_function(each)}
    return found


def _is_function(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("function_process" in part for part in process.cmdline())
    return False


def _wait_function(link: Link, before: str, other_than: Collection[psutil.Process] = ()) -> psutil.Process:
    """A function's process, as soon as there is one."""

    def found() -> psutil.Process | None:
        there = _functions(link.product) - set(other_than)
        return there.pop() if there else None

    try:
        process = wait_for_state(found, f"the function's process is there before {before}", pause=0.02)
    except WaitTimedOut:
        link.check_not_failed()
        raise
    assert isinstance(process, psutil.Process)
    return process


def test_records_are_filtered_and_masked_and_no_secret_is_told(link: Link, worker: Product) -> None:
    link.write(300)
    link.put()
    link.wait_all()
    link.check()
    assert SALT not in worker.log_file.read_text()
    assert _functions(worker)
    # The function's process ends with its task.
    worker.call("PUT", f"{worker.connector_path(link.topic)}/stop")
    wait_for_state(lambda: not _functions(worker), "the function's process has ended")


@pytest.mark.parametrize("rounds", [3, 30])
def test_killed_processes_lose_nothing_and_keep_the_order(rounds: int, link: Link, worker: Product) -> None:
    random: Random = chance("python")
    link.write(100)
    link.put()
    link.wait_all()
    for turn in range(rounds):
        link.write(random.randint(100, 1_000))
        time.sleep(random.random())
        if turn and turn % 6 == 0:
            # After twelve deaths a task is FAILED, and a kill may be the death of an attempt and of the next one.
            worker.call("POST", f"{worker.connector_path(link.topic)}/tasks/0/restart")
            worker.wait_running(link.topic)
        function = _wait_function(link, f"kill {turn}")
        if random.random() < 0.6:
            kill_some(worker, random)
        else:
            with contextlib.suppress(psutil.Error):
                function.kill()
        link.write(50)
        # Without this wait the next kill meets processes that are starting.
        if random.random() < 0.6:
            link.wait_all()
    link.wait_all()
    link.check()


def test_a_function_that_is_killed_before_its_first_row_is_started_again(link: Link, worker: Product) -> None:
    link.write(100)
    link.put()
    link.wait_all()
    for turn in range(4):
        first = _wait_function(link, f"kill {turn}")
        first.kill()
        # Python needs longer to start than it takes to find it.
        _wait_function(link, f"kill {turn} as it starts", {first}).kill()
        link.write(50)
        link.wait_all()
    link.check_not_failed()
    link.check()


def test_a_record_that_raises_is_named_and_with_tolerance_it_alone_is_left_out(link: Link, worker: Product) -> None:
    link.write(20)
    link.write(1, b"no JSON")
    link.write(20)
    link.put()
    worker.wait_states(link.topic, ["RUNNING", "FAILED"])
    trace = worker.status(link.topic)["tasks"][0]["trace"]
    assert f"{link.topic}, partition " in trace
    assert "offset 20: transformation spark.transform.python can't " in trace
    assert "masking:mask raised JSONDecodeError (line " in trace
    assert "no JSON" not in trace
    failed = worker.status(link.topic)["tasks"][0]["id"]
    # As in Connect: the task could be started, whatever becomes of it.
    assert worker.rest.post(f"/connectors/{link.topic}/tasks/{failed}/restart").status_code == httpx.codes.NO_CONTENT
    worker.wait_states(link.topic, ["RUNNING", "FAILED"])
    link.put(tolerance="all")
    wanted = PARTITIONS * (len(link.wanted) - 1)
    wait_for(lambda: link.copied() >= wanted, f"{wanted} records are copied", 180, arrived=link.copied)


def test_a_wrong_function_is_refused_or_ends_the_task_with_one_line(link: Link, worker: Product) -> None:
    missing = {
        "masking:nothing": "module masking has no function nothing",
        "masking.more:mask": "there is no module masking.more",
    }
    # What executors of a cluster have, the worker does not know.
    at_once = missing if worker.spark is None else {}
    for function, text in {"os:system": "the worker's file must allow it", **at_once}.items():
        refused = worker.rest.put(f"/connectors/{link.topic}/config", json=link.config(function))
        assert refused.status_code == httpx.codes.BAD_REQUEST
        assert text in refused.json()["message"]
    link.write(20)
    for function, text in {"masking:short": "masking:short returned", **({} if at_once else missing)}.items():
        link.put(function)
        trace = wait_for_state(lambda text=text: link.failed_with(text), f"the task is FAILED: {text}")
        assert trace.count("\n") == 1
    assert link.copied() == 0


def test_a_function_that_never_returns_is_named_and_ends_with_its_task(link: Link, worker: Product) -> None:
    link.write(20)
    link.write(1, b"endless")
    path = worker.connector_path(link.topic)
    worker.put(link.topic, {**link.config("masking:endless"), "tasks.max": "1"})
    wait_for_state(lambda: "masking:endless) has not returned since" in link.trace(), "the status names the records")
    assert f"{link.topic}, partition " in link.trace()
    assert worker.states(link.topic) == ["RUNNING", "RUNNING"]
    lines = [line for line in worker.log_file.read_text().splitlines() if "has not returned for" in line]
    assert len(lines) == 1
    assert f"Task {link.topic}-0: {link.topic}, partition " in lines[0]

    def ends(what: str, act: Callable[[], object]) -> None:
        function = _wait_function(link, what)
        act()
        wait_for_state(lambda: not function.is_running(), f"the function's process has ended by {what}")

    ends("a restart of the task", lambda: worker.call("POST", f"{path}/tasks/0/restart"))
    ends("a restart", lambda: worker.call("POST", f"{path}/restart?includeTasks=true"))
    ends("the death of the task", lambda: [each.kill() for each in processes(worker)[1]])
    ends("a stop", lambda: worker.call("PUT", f"{path}/stop"))
    worker.call("PUT", f"{path}/resume")
    ends("a pause", lambda: worker.call("PUT", f"{path}/pause"))
    worker.put(link.topic, {**link.config("masking:endless"), "tasks.max": "1", "spark.transform.timeout.ms": "3000"})
    worker.call("PUT", f"{path}/resume")
    worker.wait_states(link.topic, ["RUNNING", "FAILED"])
    wait_for_state(lambda: not _functions(worker), "the function's process has ended with its task")
    assert "TransformationError: " in link.trace()
    assert "which is more than spark.transform.timeout.ms=3000" in link.trace()
    assert link.trace().count("\n") == 1
    # What is in front of these records is copied, and nothing of them.
    assert link.copied() <= PARTITIONS * 20
    worker.put(link.topic, {**link.config("masking:endless"), "tasks.max": "1"})
    ends("a delete", lambda: worker.delete(link.topic))
    worker.put(link.topic, link.config())
