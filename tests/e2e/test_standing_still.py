"""What can't go on, seen by a user of the whole product: a line in the status of the RUNNING task, until it is mended.

One connector, one task: each fixture does the next thing to it, and the tests say what was seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from deploy.local import Listener, LocalCluster, start_all
from tests.e2e import numbered
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.waiting import WaitTimedOut, wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

NAME: Final = "still"
SMALL, CORRUPT, SPOILED, UNREAD, UNWRITTEN = "small", "corrupt", "spoiled", "unread", "unwritten"
GOOD, NUMBERED = "good", "numbered"
# The record at this offset is in the way.
AT: Final = 10
ROWS: Final = [b"record %d" % number for number in range(30)]
LARGE: Final = [*ROWS[:AT], bytes(5_000), *ROWS[AT + 1 :]]
PATIENCE_S: Final = 360.0


@dataclass
class World:
    source: LocalCluster
    target: LocalCluster
    product: Product
    # The link while the source was stopped.
    away: dict[str, Any] = field(default_factory=dict)

    def status(self) -> dict[str, Any]:
        return self.product.status(NAME)

    def _told(self) -> tuple[str, str]:
        tasks = self.status().get("tasks", [])
        trace = str(tasks[0].get("trace") or "") if tasks and tasks[0]["state"] == "RUNNING" else ""
        lasting, _, happened = trace.partition("Events since the task started:\n")
        return lasting.strip(), happened

    def trace(self) -> str:
        """What lasts, of the task's trace; empty if it has none, or doesn't run."""
        return self._told()[0]

    def happened(self) -> list[str]:
        """What is past, of the task's trace."""
        return self._told()[1].splitlines()

    def wait_trace(self, condition: Callable[[str], bool], what: str) -> str:
        """The first trace of the RUNNING task that satisfies it."""
        seen: list[str] = [""]

        def reached() -> bool:
            self.product.check_alive()
            seen[0] = self.trace()
            return self.product.states(NAME)[1:] == ["RUNNING"] and condition(seen[0])

        try:
            wait_for_state(reached, what, PATIENCE_S)
        except WaitTimedOut as error:
            self.product.check_alive()
            assert "FAILED" not in self.product.states(NAME), self.status()
            raise WaitTimedOut(f"{error}; it is {self.status()}\n{self.product.log_tail(40)}") from None
        return seen[0]

    def link(self) -> dict[str, Any]:
        """What GET /admin/links shows of the link."""
        (found,) = self.product.call("GET", "/admin/links")["links"]
        return dict(found)

    def lags(self) -> dict[str, tuple[int | None, str | None]]:
        """The lag in records of each topic of the link, and its problem."""
        rows = self.product.call("GET", "/admin/links/A-%3EB/topics")["topics"]
        return {row["topic"]: (row["lag"]["records"], row["problem"]) for row in rows}

    def logged(self, words: str) -> int:
        return sum(words in line for line in self.product.log_text().splitlines())

    def wait_told(self, logged: str, happened: str) -> None:
        """Until the log has it, and the status once: the log is written first, and the status with a later write."""
        wait_for_state(lambda: self.logged(logged), f"the log tells of it: {logged}", PATIENCE_S)
        seen: list[str] = []

        def told(_: str) -> bool:
            seen[:] = [line for line in self.happened() if happened in line]
            return bool(seen)

        self.wait_trace(told, f"the status tells: {happened}")
        assert len(seen) == 1

    def copied(self, topic: str) -> list[bytes | None]:
        return values(self.target, f"A.{topic}", 1)[0]


def produce(cluster: LocalCluster, topic: str, rows: list[bytes]) -> None:
    """Each record is a batch of its own."""
    producer = Producer({**cluster.librdkafka(), "batch.num.messages": 1})
    for row in rows:
        producer.produce(topic, row)
    assert producer.flush(60) == 0


def change_byte(cluster: LocalCluster, topic: str) -> None:
    """Flips a bit of the record at AT in the broker's segment, and back; the broker reads it from there each time."""
    (segment,) = cluster.partition_directory(topic, 0).glob("*.log")
    at = segment.read_bytes().index(b"ord %d" % AT) - 1
    with segment.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x80]), at)


def set_largest(cluster: LocalCluster, topic: str, size: int) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    for done in cluster.admin().incremental_alter_configs([resource]).values():
        done.result(180)


def denied(user: str, topic: str, operation: AclOperation) -> AclBinding:
    kind, literal = ResourceType.TOPIC, ResourcePatternType.LITERAL
    return AclBinding(kind, topic, literal, f"User:{user}", "*", operation, AclPermissionType.DENY)


def deny(cluster: LocalCluster, binding: AclBinding) -> None:
    kind, literal = ResourceType.TOPIC, ResourcePatternType.LITERAL
    rest = AclBinding(kind, binding.name, literal, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    for done in cluster.admin().create_acls([rest, binding]).values():
        done.result(180)


def grant(cluster: LocalCluster, binding: AclBinding) -> None:
    kept = (binding.restype, binding.name, binding.resource_pattern_type, binding.principal, "*", binding.operation)
    for done in cluster.admin().delete_acls([AclBindingFilter(*kept, binding.permission_type)]).values():
        assert done.result(180)


NO_READ: Final = denied("copier", UNREAD, AclOperation.READ)
NO_WRITE: Final = denied("worker", f"A.{UNWRITTEN}", AclOperation.WRITE)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Clusters with users and rights, a worker, and a connector whose partitions mostly can't go on."""
    open_to_all = {"allow.everyone.if.no.acl.found": "true"}
    source, target = (
        LocalCluster(
            name,
            listeners=[Listener.SASL_PLAINTEXT],
            users={user: f"{user}-pw"},
            authorizer=True,
            properties=open_to_all,
        )
        for name, user in (("still-source", "copier"), ("still-target", "worker"))
    )
    try:
        start_all(source, target)
        for topic in (GOOD, NUMBERED, SMALL, CORRUPT, SPOILED, UNREAD, UNWRITTEN):
            source.create_topic(topic)
            if topic != NUMBERED:
                produce(source, topic, LARGE if topic == SMALL else ROWS)
        target.create_topic(f"A.{SMALL}", 1, {"max.message.bytes": "2000"})
        target.create_topic(f"A.{UNWRITTEN}")
        for topic in (CORRUPT, SPOILED):
            change_byte(source, topic)
        deny(source, NO_READ)
        deny(target, NO_WRITE)
        with Product(target, group="still") as product:
            topics = ",".join((GOOD, NUMBERED, SMALL, CORRUPT, SPOILED, UNREAD, UNWRITTEN))
            product.put(NAME, mirror_config(source, target, topics))
            product.wait_running(NAME)
            yield World(source, target, product)
    finally:
        source.close()
        target.close()


# Lines.


@pytest.fixture(scope="module")
def standing(world: World) -> tuple[World, str]:
    """When all five stand still."""
    return world, world.wait_trace(lambda trace: len(trace.splitlines()) == 5, "five lines")


def test_every_partition_that_stands_still_is_a_line_of_the_running_task(standing: tuple[World, str]) -> None:
    corrupt, small, spoiled, unread, unwritten = standing[1].splitlines()
    for line, topic in ((corrupt, CORRUPT), (spoiled, SPOILED)):
        assert line.startswith(
            f"{topic}-0 is stalled at offset {AT}: its batch is corrupt (its CRC does not fit its bytes)"
        )
    assert small.startswith(f"{SMALL}-0 is stalled at offset {AT}: ")
    assert f"raise max.message.bytes of topic A.{SMALL} on the target, now 2000 " in small
    right = f"grant READ on topic {UNREAD} to the source user"
    assert unread == f"source partition {UNREAD}-0 can't be read: not authorized; {right}"
    right = f"grant WRITE on topic A.{UNWRITTEN} to the producing user"
    assert unwritten == f"Not authorized to write to topic A.{UNWRITTEN} on the target; {right}; it is tried again"


def test_the_list_of_connectors_shows_the_same_lines(standing: tuple[World, str]) -> None:
    world, trace = standing

    def shown() -> list[tuple[str, str | None]]:
        listed = world.product.call("GET", "/connectors?expand=status")[NAME]["status"]
        own = world.product.call("GET", f"/connectors/{NAME}/tasks/0/status")
        return [(task["state"], task.get("trace")) for task in (*listed["tasks"], own)]

    # A broker that is slow to answer may have had a line of its own for a moment.
    wait_for(lambda: shown() == [("RUNNING", trace)] * 2, f"both show {trace}", PATIENCE_S)


def test_the_link_shows_them_with_code_beginning_and_what_is_missing(standing: tuple[World, str]) -> None:
    world, trace = standing
    link = wait_for(lambda: link if len((link := world.link())["problems"]) == 5 else None, "five problems", PATIENCE_S)
    assert (link["name"], link["state"], link["partitions"]) == ("A->B", "RUNNING", 7)
    assert sorted(each["line"] for each in link["problems"]) == sorted(trace.splitlines())
    assert sorted((each["code"], each["subject"].split()[-1]) for each in link["problems"]) == [
        ("PARTITION_READ_DENIED", f"{UNREAD}-0"),
        ("PARTITION_STALLED_BATCH_CORRUPT", f"{CORRUPT}-0"),
        ("PARTITION_STALLED_BATCH_CORRUPT", f"{SPOILED}-0"),
        ("PARTITION_STALLED_RECORD_TOO_LARGE", f"{SMALL}-0"),
        ("PARTITION_WRITE_DENIED", f"A.{UNWRITTEN}"),
    ]
    now_ms = time.time() * 1000
    assert all(now_ms - 600_000 < each["since_ms"] <= now_ms for each in link["problems"])
    missing = len(ROWS) - AT
    wanted = {GOOD: 0, NUMBERED: 0, SMALL: missing, CORRUPT: missing, SPOILED: missing, UNWRITTEN: len(ROWS)}
    # What may not be read may be described: the broker tells the end of its log.
    wanted_lags = {**wanted, UNREAD: len(ROWS)}
    wait_for(
        lambda: {topic: lag for topic, (lag, _) in world.lags().items()} == wanted_lags,
        f"the lags are {wanted_lags}, and not {world.lags()}",
        PATIENCE_S,
    )
    with_problem = wanted_lags.keys() - {GOOD, NUMBERED}
    wait_for_state(
        lambda: {topic for topic, (_, problem) in world.lags().items() if problem} == with_problem,
        f"these have a problem: {with_problem}",
        PATIENCE_S,
    )
    # It grows while nothing is copied.
    asked = time.monotonic()
    before = world.link()["lag"]
    time.sleep(1.5)
    after = world.link()["lag"]
    assert 1.0 < after["seconds"] - before["seconds"] < time.monotonic() - asked + 1
    assert (after["records"], after["partitions_behind"], after["partitions_unknown"]) == (
        3 * missing + 2 * len(ROWS),
        5,
        0,
    )


def test_the_log_has_every_line_once(standing: tuple[World, str]) -> None:
    world, trace = standing
    assert [world.logged(line) for line in trace.splitlines()] == [1] * 5


def test_the_other_partitions_go_on_and_what_is_in_front_of_the_record_is_copied(standing: tuple[World, str]) -> None:
    world, _ = standing
    produce(world.source, GOOD, ROWS)
    wait_ends(world.target, f"A.{GOOD}", {0: 2 * len(ROWS)}, PATIENCE_S)

    def flowing() -> dict[str, Any] | None:
        # Both are of the last seconds, which may be over when a busy machine gets here.
        produce(world.source, GOOD, ROWS[:1])
        link = world.link()
        return link if link["rate"]["records"] > 0 and link["latency_ms"] is not None else None

    link = wait_for_state(flowing, "a rate and a latency", PATIENCE_S, 0.5)
    # The mean of 15 s, in which thirty records came at once, and two each second.
    assert link["rate"]["records"] < 30
    assert link["rate"]["bytes"] > link["rate"]["records"]
    assert link["latency_ms"]["max"] >= 1
    assert [world.copied(topic) for topic in (SMALL, CORRUPT, SPOILED)] == [ROWS[:AT]] * 3


# Mended.


@pytest.fixture(scope="module")
def mended(standing: tuple[World, str]) -> World:
    """After somebody has done what the lines say; the spoiled batch stays as it is."""
    world, _ = standing
    change_byte(world.source, CORRUPT)
    set_largest(world.target, f"A.{SMALL}", 100_000)
    grant(world.source, NO_READ)
    grant(world.target, NO_WRITE)
    world.wait_trace(
        lambda trace: trace.startswith(f"{SPOILED}-0 is stalled") and "\n" not in trace, "one line is left"
    )
    return world


def test_what_is_mended_is_copied_whole_and_its_line_is_gone(mended: World) -> None:
    for topic in (SMALL, CORRUPT, UNREAD, UNWRITTEN):
        wait_ends(mended.target, f"A.{topic}", {0: len(ROWS)}, PATIENCE_S)
    assert mended.copied(SMALL) == LARGE
    assert [mended.copied(topic) for topic in (CORRUPT, UNREAD, UNWRITTEN)] == [ROWS] * 3


def test_the_link_shows_no_problem_that_is_over(mended: World) -> None:
    missing = len(ROWS) - AT
    wait_for(
        lambda: {topic: lag for topic, (lag, _) in mended.lags().items() if lag != 0} == {SPOILED: missing},
        f"only {SPOILED} lags, and not as in {mended.lags()}",
        PATIENCE_S,
    )
    left = (["PARTITION_STALLED_BATCH_CORRUPT"], missing, 0)

    def shown() -> tuple[list[str], int | None, int]:
        link = mended.link()
        codes = [each["code"] for each in link["problems"]]
        return codes, link["lag"]["records"], link["lag"]["partitions_unknown"]

    wait_for_state(lambda: shown() == left, f"the link shows {left}", PATIENCE_S)


# Given up.


@pytest.fixture(scope="module")
def skipping(mended: World) -> World:
    """After a change of the connector's config gave up what can't be mended, and records that are too large."""
    set_largest(mended.target, f"A.{SMALL}", 2_000)
    config = mended.product.call("GET", f"/connectors/{NAME}/config")
    mended.product.put(NAME, {**config, "on.corrupt.batch": "skip", "on.oversize.record": "skip"})
    produce(mended.source, SMALL, LARGE)
    mended.wait_trace(lambda trace: not trace, "no line is left")
    return mended


def test_a_corrupt_batch_is_given_up_with_a_line_in_the_log_and_in_the_status(skipping: World) -> None:
    wait_ends(skipping.target, f"A.{SPOILED}", {0: len(ROWS) - 1}, PATIENCE_S)
    assert skipping.copied(SPOILED) == [*ROWS[:AT], *ROWS[AT + 1 :]]
    # It comes with the task's next report, and what follows may be copied before that.
    line = f"{SPOILED}-0: 1 offset skipped at offset {AT}, their batch is corrupt"
    skipping.wait_told(line, f"UTC {SPOILED}-0: 1 offset skipped at offset {AT}")
    assert skipping.logged(line) == 1


def test_a_record_too_large_is_given_up_with_a_line_in_the_log_and_in_the_status(skipping: World) -> None:
    wait_ends(skipping.target, f"A.{SMALL}", {0: 2 * len(ROWS) - 1}, PATIENCE_S)
    assert skipping.copied(SMALL) == [*LARGE, *ROWS[:AT], *ROWS[AT + 1 :]]
    line = f"{SMALL}-0: the record at offset {len(ROWS) + AT} is skipped: it has "
    skipping.wait_told(line, f"UTC {SMALL}-0: the record at offset")
    assert skipping.logged(line) == 1


# A cluster that is away.


@pytest.fixture(scope="module")
def away(skipping: World) -> tuple[World, str, str]:
    """The trace while the source is stopped, and the one after it is back."""
    world = skipping
    world.source.stop()
    absent = world.wait_trace(lambda trace: "can't be reached" in trace, "the source is named")
    # Ten seconds after the last answer of the source.
    wait_for(lambda: world.link()["lag"]["partitions_unknown"] == 7, "no lag is known", PATIENCE_S)
    world.away = world.link()
    world.source.start()
    return world, absent, world.wait_trace(lambda trace: not trace, "the line goes")


def test_a_source_that_is_away_is_named_with_its_address_the_time_and_the_reason(away: tuple[World, str, str]) -> None:
    world, absent, _ = away
    bootstrap = world.source.bootstrap_servers
    # First; partitions that lost their leader while the broker ended may have lines of their own.
    line = absent.splitlines()[0]
    assert line.startswith(f"The source cluster A (bootstrap.servers {bootstrap}) can't be reached since 2")
    assert f" UTC: no broker answers at {bootstrap}: " in line
    assert line.endswith("; it is tried again until it answers")


def test_the_lag_is_unknown_while_the_source_is_away_and_known_when_it_is_back(away: tuple[World, str, str]) -> None:
    world = away[0]
    assert world.away["lag"]["records"] is None
    assert "CLUSTER_UNREACHABLE" in [each["code"] for each in world.away["problems"]]
    wait_for(lambda: world.link()["lag"]["partitions_unknown"] == 0, "every lag is known", PATIENCE_S)
    wait_for(lambda: world.link()["problems"] == [], "no problem is left", PATIENCE_S)
    at_rest = {"records": 0, "seconds": 0.0, "partitions_behind": 0, "partitions_unknown": 0}
    wait_for_state(lambda: world.link()["lag"] == at_rest, "the link is at rest", PATIENCE_S)


def test_a_source_that_is_back_is_copied_again(away: tuple[World, str, str]) -> None:
    world = away[0]
    produce(world.source, GOOD, ROWS)
    wait_ends(world.target, f"A.{GOOD}", end_offsets(world.source, GOOD), PATIENCE_S)


# What a worker tells then is in tests/unit/app/herder, and test_crashes.py suspends and kills, too.
# Clusters that hang.


@dataclass
class Hung:
    world: World
    states: list[str]
    trace: str
    health: tuple[int, str]
    written: dict[int, int]


@pytest.fixture(scope="module")
def hung(away: tuple[World, str, str]) -> Hung:
    """Both clusters are suspended, the worker's own too, until the worker counts on its place no longer."""
    world = away[0]
    with numbered.Writer(world.source, NUMBERED, 1, 200) as writer:
        wait_ends(world.target, f"A.{NUMBERED}", {0: 100}, PATIENCE_S)
        world.source.suspend()
        world.target.suspend()
        try:
            wait_for_state(lambda: world.product.states(NAME) == ["UNASSIGNED"] * 2, "nothing runs", PATIENCE_S)
            status, health = world.status(), world.product.rest.get("/health")
        finally:
            world.target.resume()
            world.source.resume()
        world.product.wait_running(NAME)
    wait_ends(world.target, f"A.{NUMBERED}", writer.counts, PATIENCE_S)
    trace = status["tasks"][0]["trace"]
    states = [status["connector"]["state"], status["tasks"][0]["state"]]
    return Hung(world, states, trace, (health.status_code, health.json()["message"]), writer.counts)


@pytest.mark.soak
@pytest.mark.long
def test_while_its_own_cluster_is_away_a_worker_shows_what_it_ran_as_not_running(hung: Hung) -> None:
    assert hung.states == ["UNASSIGNED", "UNASSIGNED"]
    assert hung.trace.startswith("This worker has had no contact with its own cluster since 2")
    assert hung.trace.endswith("; stopped until the cluster answers again.")


@pytest.mark.soak
@pytest.mark.long
def test_while_its_own_cluster_is_away_a_worker_is_not_healthy(hung: Hung) -> None:
    assert (hung.health[0], "no contact with its own cluster" in hung.health[1]) == (500, True)


@pytest.mark.soak
@pytest.mark.long
def test_after_both_clusters_were_suspended_copying_goes_on_and_no_record_is_missing(hung: Hung) -> None:
    ends = {0: len(hung.world.copied(NUMBERED))}
    arrived = numbered.read(hung.world.target, f"A.{NUMBERED}", ends)[0]
    assert arrived.first_seen == list(range(hung.written[0]))
