"""What a user asks of a connector takes effect at once and commits first: nothing is repeated, nothing is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.numbered import Writer, read
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import batches
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

PARTITIONS: Final = 4
RATE: Final = 2_000
PASSWORD: Final = "right-horse-battery"
WRONG_PASSWORD: Final = "wrong-staple-correct"


@dataclass(frozen=True)
class Link:
    """A connector of the shared worker, named as its topic."""

    source: LocalCluster
    target: LocalCluster
    product: Product
    topic: str

    @property
    def config(self) -> dict[str, str]:
        """Its config."""
        return mirror_config(self.source, self.target, self.topic)

    def ends(self) -> dict[int, int]:
        """End offsets on the target."""
        return end_offsets(self.target, f"A.{self.topic}")

    def wait_copying(self) -> None:
        """Wait until records arrive that were not there before."""
        self.product.wait_going_on(self.topic, self.target, f"A.{self.topic}")

    def stands_still(self) -> None:
        """Asserts that nothing arrives any more."""
        before = self.ends()
        time.sleep(1.0)
        assert self.ends() == before

    def is_whole_without_repeats(self, writer: Writer) -> None:
        """Asserts that every number arrives, in order and once."""
        wait_ends(self.target, f"A.{self.topic}", writer.counts)
        arrived = read(self.target, f"A.{self.topic}", self.ends())
        numbers = {partition: found.first_seen for partition, found in arrived.items()}
        assert numbers == {partition: list(range(count)) for partition, count in writer.counts.items()}
        assert sum(found.repeated for found in arrived.values()) == 0


@pytest.fixture
def link(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> Iterator[Link]:
    """A connector that copies a topic of the test's own."""
    found = Link(source_cluster, target_cluster, product, topic_name("asked"))
    source_cluster.create_topic(found.topic, PARTITIONS)
    product.put(found.topic, found.config)
    product.wait_running(found.topic)
    yield found
    product.delete(found.topic)


@dataclass
class Asked:
    """What the worker's log says of one connector from now on: by the product's own clock, not by the test's."""

    link: Link
    begin: int = 0

    def __post_init__(self) -> None:
        self.begin = len(self.link.product.log_text())

    def lines(self) -> list[tuple[float, str]]:
        """Seconds and texts of the lines about the connector and its task."""
        lines = re.findall(
            r"^\[([0-9 :,-]{23})\] \w+ (.*) \(mirror_connect", self.link.product.log_text()[self.begin :], re.M
        )
        name = self.link.topic
        return [(stamp(at), text) for at, text in lines if text.startswith((f"Connector {name}: ", f"Task {name}-0"))]

    def ended_by_itself(self, request: str) -> float:
        """Waits for the task's end after a request; seconds between the two. The product gives a task 1.8 s to commit and
        return and kills it then: one that was not killed was in time, however slow the machine is.
        """
        name = self.link.topic
        first, last = f"Connector {name}: {request}", f"Task {name}-0 has ended; what it copied is committed"
        if request.startswith("Task "):
            first = request
        wait_for_state(lambda: any("has ended" in text or "was killed" in text for _, text in self.lines()), last)
        said = self.lines()
        texts = [text for _, text in said]
        assert [text for text in texts if "has ended" in text or "was killed" in text] == [last]
        assert texts.index(first) < texts.index(last), texts
        return said[texts.index(last)][0] - said[texts.index(first)][0]


def stamp(text: str) -> float:
    """Seconds since 1970 of a time in the log."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


@pytest.fixture
def took(capsys: pytest.CaptureFixture[str]) -> Callable[[str, float], None]:
    """`took("ended", seconds)` prints how long something took: by the worker's log, or as this test saw it."""

    def say(what: str, seconds: float) -> None:
        with capsys.disabled():
            print(f" [{what} after {seconds:.2f} s]", end="", flush=True)

    return say


Took = Callable[[str, float], None]


@pytest.mark.parametrize(
    ("verb", "states"), [("pause", ["PAUSED", "PAUSED"]), ("stop", ["STOPPED"])], ids=["pause", "stop"]
)
def test_nothing_is_copied_once_the_status_says_so_and_nothing_twice_after_resume(
    link: Link, took: Took, verb: str, states: list[str]
) -> None:
    product, name = link.product, link.topic
    with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
        link.wait_copying()
        asked = Asked(link)
        product.call("PUT", f"/connectors/{name}/{verb}")
        took("ended", asked.ended_by_itself(f"asked to {verb}"))
        product.wait_states(name, states)
        link.stands_still()
        since = time.monotonic()
        product.call("PUT", f"/connectors/{name}/resume")
        product.wait_running(name)
        took("RUNNING", time.monotonic() - since)
        link.wait_copying()
    link.is_whole_without_repeats(writer)


def test_a_deleted_connector_copies_nothing_and_goes_on_where_it_was_when_created_again(link: Link, took: Took) -> None:
    product, name = link.product, link.topic
    with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
        link.wait_copying()
        asked = Asked(link)
        product.delete(name)
        wait_for_state(lambda: not product.status(name), f"{name} has no status")
        took("ended", asked.ended_by_itself("deleted"))
        link.stands_still()
        product.put(name, link.config)
        product.wait_running(name)
        link.wait_copying()
    link.is_whole_without_repeats(writer)


@pytest.mark.parametrize(
    ("path", "request_told"),
    [
        pytest.param("tasks/0/restart", "Task {}-0: restarted", id="task", marks=pytest.mark.long),
        pytest.param("restart?includeTasks=true", "restarted the connector, task {}-0", id="connector_and_task"),
        pytest.param("restart", None, id="connector", marks=pytest.mark.long),
    ],
)
def test_a_restart_repeats_nothing(link: Link, took: Took, path: str, request_told: str | None) -> None:
    product, name = link.product, link.topic
    with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
        link.wait_copying()
        asked = Asked(link)
        since = time.monotonic()
        product.call("POST", f"/connectors/{name}/{path}")
        if request_told is not None:
            took("ended", asked.ended_by_itself(request_told.format(name)))
        product.wait_running(name)
        took("RUNNING", time.monotonic() - since)
        link.wait_copying()
    link.is_whole_without_repeats(writer)


def test_a_changed_config_is_obeyed_and_repeats_nothing(
    link: Link, took: Took, topic_name: Callable[[str], str]
) -> None:
    product, name, added = link.product, link.topic, topic_name("added")
    link.source.create_topic(added)
    with Writer(link.source, link.topic, PARTITIONS, RATE) as writer, Writer(link.source, added, 1, 100) as more:
        link.wait_copying()
        asked = time.monotonic()
        product.put(name, link.config | {"topics": f"{link.topic},{added}"})
        wait_ends(link.target, f"A.{added}", {0: 1})
        took("a new topic's first record", time.monotonic() - asked)
        product.put(name, link.config | {"topics": f"{link.topic},{added}", "tasks.max": "2"})
        product.wait_running(name, tasks=2)
        link.wait_copying()
    link.is_whole_without_repeats(writer)
    Link(link.source, link.target, product, added).is_whole_without_repeats(more)


# A connector in trouble is alone with it.


@pytest.fixture(scope="module")
def strict() -> Iterator[LocalCluster]:
    """A source that wants a login."""
    with LocalCluster("strict", listeners=["SASL_PLAINTEXT"], users={"copier": PASSWORD}) as cluster:
        yield cluster


def test_a_connector_that_fails_says_why_and_another_goes_on_untouched(link: Link, strict: LocalCluster) -> None:
    product = link.product
    good = mirror_config(strict, link.target, "orders")
    wrong = {name: value.replace(PASSWORD, WRONG_PASSWORD) for name, value in good.items()}
    lost = good | {"source.cluster.bootstrap.servers": "no-such-host.invalid:9092"}
    with Writer(link.source, link.topic, PARTITIONS, RATE) as writer:
        try:
            for name, config, words in (
                ("wrong-password", wrong, ("source cluster", strict.bootstrap_servers, "PLAIN", "copier")),
                ("no-address", lost, ("no-such-host.invalid:9092", "bootstrap.servers")),
            ):
                product.put(name, config)
                product.wait_states(name, ["FAILED"])
                trace = product.status(name)["connector"]["trace"]
                assert [word for word in words if word not in trace.splitlines()[0]] == [], trace
                assert PASSWORD not in trace
                assert WRONG_PASSWORD not in trace
        finally:
            for name in ("wrong-password", "no-address"):
                product.rest.delete(f"/connectors/{name}")
    link.is_whole_without_repeats(writer)
    # A task that had been started again would have another epoch; processes of earlier tests' tasks end when they like.
    written = [batches(link.target, f"A.{link.topic}", partition) for partition in range(PARTITIONS)]
    assert len({batch.producer for each in written for batch in each}) == 1


def test_a_source_that_is_away_is_told_and_waited_for(link: Link, strict: LocalCluster) -> None:
    product = link.product
    strict.create_topic("late")
    strict.stop()
    try:
        product.put("waiting", mirror_config(strict, link.target, "late"))
        wait_for_state(lambda: product.status("waiting").get("connector", {}).get("trace"), "the trouble is told")
        connector = product.status("waiting")["connector"]
        assert connector["state"] == "RUNNING"
        assert strict.bootstrap_servers in connector["trace"].splitlines()[0]
        strict.start()
        product.wait_running("waiting")
        with Writer(strict, "late", 1, 100) as writer:
            pass
        Link(strict, link.target, product, "late").is_whole_without_repeats(writer)
        wait_for_state(lambda: "trace" not in product.status("waiting")["connector"], "the trouble is over")
    finally:
        product.rest.delete("/connectors/waiting")
