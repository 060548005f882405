"""Connectors that were created here: Kafka Connect, started in the same group, has them as they are and goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from deploy.local.errors import LocalError
from mirror_connect.app.storage.status import Status, encode_status
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.waiting import wait_for, wait_for_state

# In test_mm2_swap.py Java goes on where ours was, and in test_hostile_requests.py it reads connectors that ours has made.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2, pytest.mark.soak, pytest.mark.long]

GROUP = "created-here"
TOPIC = "created-here"
PATIENCE_S = 360.0
NAMES = ("running", "paused", "stopped")
LINE = "orders-0 stops at offset 10: its batch is corrupt"
REFUSED = "InconsistentGroupProtocolException"


@dataclass
class Seen:
    """What both workers said of the same connectors."""

    produced: list[list[bytes | None]] = field(default_factory=lambda: [[]])
    copied: list[list[bytes | None]] = field(default_factory=list)
    ours: dict[str, Any] = field(default_factory=dict)
    java: dict[str, Any] = field(default_factory=dict)
    positions: tuple[Any, Any] = (None, None)
    java_beside_us: str = ""
    line_in_java: str = ""


def _described(listed: dict[str, Any]) -> dict[str, Any]:
    """Of `GET /connectors?expand=…` what must not depend on who answers."""
    return {
        name: {
            "config": each["info"]["config"],
            "type": each["info"]["type"],
            "tasks": sorted((t["connector"], t["task"]) for t in each["info"]["tasks"]),
            "state": each["status"]["connector"]["state"],
            "task states": sorted((t["id"], t["state"]) for t in each["status"]["tasks"]),
        }
        for name, each in listed.items()
    }


@pytest.fixture(scope="module")
def seen(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Seen]:
    """Ours creates and copies; Java is tried beside it, and then goes on alone."""
    found = Seen()
    source_cluster.create_topic(TOPIC, 1)

    def produce_more() -> None:
        rows: list[bytes | None] = [
            b"%d" % number for number in range(len(found.produced[0]), len(found.produced[0]) + 500)
        ]
        produce(source_cluster, TOPIC, ({"value": value, "partition": 0} for value in rows))
        found.produced[0] += rows

    def wait_copied() -> None:
        wait_ends(target_cluster, f"A.{TOPIC}", {0: len(found.produced[0])}, PATIENCE_S)

    java = ConnectWorker(target_cluster, {"offset.flush.interval.ms": "1000"}, group=GROUP, heap="512m")
    ours = Product(target_cluster, group=GROUP)
    try:
        produce_more()
        ours.start()
        for name in NAMES:
            ours.put(name, mirror_config(source_cluster, target_cluster, TOPIC if name == "running" else f"no-{name}"))
        ours.wait_running("running")
        wait_copied()
        for name, asked, state in (("paused", "pause", "PAUSED"), ("stopped", "stop", "STOPPED")):
            assert ours.rest.put(f"/connectors/{name}/{asked}").status_code in (202, 204)
            wait_for_state(
                lambda name=name, state=state: set(ours.states(name)) == {state}, f"{name} is {state}", PATIENCE_S
            )
        with contextlib.suppress(LocalError):
            java.start(1)  # it will not get as far as that
        wait_for_state(lambda: REFUSED in java.log.read_text(), "Java is refused", PATIENCE_S)
        found.java_beside_us = java.log.read_text()
        # Asked to end, it would wait half a minute for the start that it does not get through.
        java.kill()
        found.ours = _described(ours.call("GET", "/connectors?expand=info&expand=status"))

        def committed() -> bool:
            found.positions = (ours.call("GET", "/connectors/running/offsets"), None)
            return [each["offset"] for each in found.positions[0]["offsets"]] == [
                {"offset": len(found.produced[0]) - 1}
            ]

        wait_for(committed, "the position is committed", PATIENCE_S)
        before = found.positions[0]
        assert ours.stop() == 0

        java.start()
        java.wait_running("running")

        def as_ours() -> bool:
            status, listed = java.request("GET", "/connectors?expand=info&expand=status")
            found.java = _described(listed) if status == 200 else {}
            return found.java == found.ours

        # The comparison is a test of its own, which shows the difference.
        with contextlib.suppress(AssertionError):
            wait_for_state(as_ours, "Java says of the connectors what ours said")
        # What ours writes of a task that copies and has a partition that stands still.
        status = encode_status(Status("RUNNING", "ours:8083", 1, LINE))
        produce(target_cluster, f"{GROUP}-status", [{"key": b"status-task-running-0", "value": status, "partition": 0}])

        def shown() -> bool:
            status, listed = java.request("GET", "/connectors?expand=status")
            if status != 200:
                return False
            task = listed["running"]["status"]["tasks"][0]
            found.line_in_java = f"{task['state']}: {task.get('trace')}"
            return LINE in found.line_in_java

        with contextlib.suppress(AssertionError):
            wait_for_state(shown, "Java shows the line", PATIENCE_S)
        found.positions = (before, java.request("GET", "/connectors/running/offsets")[1])
        produce_more()
        wait_copied()
        found.copied = values(target_cluster, f"A.{TOPIC}", 1)
        yield found
    finally:
        java.close()
        ours.close()


def test_java_lists_the_same_connectors_with_the_same_configs_tasks_and_states(seen: Seen) -> None:
    assert seen.java == seen.ours
    assert {name: each["state"] for name, each in seen.ours.items()} == {
        "running": "RUNNING",
        "paused": "PAUSED",
        "stopped": "STOPPED",
    }


def test_java_tells_the_offsets_that_ours_told(seen: Seen) -> None:
    assert seen.positions[0]["offsets"] == seen.positions[1]["offsets"] != []


def test_java_shows_the_line_of_a_running_task_as_it_is(seen: Seen) -> None:
    assert seen.line_in_java == f"RUNNING: {LINE}"


def test_java_goes_on_where_ours_stopped(seen: Seen) -> None:
    assert seen.copied == seen.produced


def test_java_that_comes_second_is_refused_by_the_broker(seen: Seen) -> None:
    assert REFUSED in seen.java_beside_us
