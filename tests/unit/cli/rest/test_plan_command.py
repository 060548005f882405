"""`mirror-connect plan`: what it sends, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from mirror_connect.app.planning.plan import (
    Action,
    Amount,
    ConfigDifference,
    LeftOutTopic,
    Plan,
    PlannedAcls,
    PlannedConfig,
    PlannedGroup,
    PlannedInternalTopic,
    PlannedPosition,
    PlannedTasks,
    PlannedTopic,
    Refusal,
    Side,
)
from mirror_connect.app.planning.planner import Existing
from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import SOURCE, source_config
from tests.unit.cli.rest.conftest import Done, Mirror, Served

PLAN = Plan(
    "link",
    SOURCE,
    True,
    Side("A", "source-id"),
    Side("B", "target-id", True),
    [ConfigDifference("topics", "orders", "orders,bills")],
    [
        PlannedTopic("orders", "A.orders", Action.GROW, True, 3, 2, records=1200, bytes=3_400_000),
        PlannedTopic("bills", "A.bills", Action.CREATE, False, 1, 0, 2, {"retention.ms": "9"}, records=None),
    ],
    [LeftOutTopic("B.x", "cycle", "it came from B")],
    7,
    [PlannedInternalTopic("mm2-offset-syncs.B.internal", "source", Action.KEEP)],
    [PlannedConfig("A.orders", "flush.ms", "9", None)],
    PlannedAcls([AclBinding("TOPIC", "LITERAL", "A.orders", "User:u", "*", "READ", "ALLOW")], [], None),
    [PlannedGroup("g", False, [PlannedPosition("A.orders", 0, 5, 4, None, True)], 2)],
    PlannedTasks(1, 2, 0, 1, ["old-0"]),
    Amount(1200, 3_400_000, 10.0, 1000.0, 3.0, 1e6, 3.4),
    [],
    ["source and target are the same cluster"],
)


class FakePlanner:
    def __init__(self, answer: Plan | Exception) -> None:
        self.answer = answer
        self.speed: float | None = None

    async def plan(
        self,
        raw: Mapping[str, str],
        resolved: Mapping[str, str],
        existing: Existing | None = None,
        speed: float | None = None,
    ) -> Plan:
        self.speed = speed
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "link.json"
    path.write_text(json.dumps({"name": "link", "config": source_config()}))
    return path


def planned(mirror: Mirror, served: Served, file: Path, answer: Plan | Exception, *more: str) -> Done:
    served.worker.herder.plans._planner = FakePlanner(answer)
    return mirror("plan", str(file), "--worker", served.url, *more)


def test_a_plan_is_printed_in_tables_and_ends_with_that_nothing_was_changed(
    mirror: Mirror, served: Served, file: Path
) -> None:
    done = planned(mirror, served, file, PLAN)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert (done.code, done.err, lines[-1]) == (0, "", "Nothing was changed.")
    for line in (
        "Connector link exists. Its config would change:",
        "topics orders orders,bills",
        "orders A.orders grow 2 -> 3 1,200 3.4 MB - -",
        "bills A.bills create 1 unknown unknown 2 retention.ms=9",
        "B.x it came from B",
        "A.orders flush.ms 9 its default",
        "add ALLOW READ User:u * LITERAL A.orders",
        "g A.orders 0 5 - 4",
        "A (source-id) -> B (target-id)",
        "2 tasks, 1 now.",
        "No longer copied: old-0.",
        "7 topics are not selected.",
        "To copy: 1,200 records, about 3.4 MB.",
        "At 1.0 MB/s the copy has caught up after 3.4 s.",
        "Group g: 2 offsets can't be translated yet.",
        "Note: source and target are the same cluster.",
    ):
        assert line in lines


def test_a_plan_as_json_and_yaml_is_what_the_worker_answered(mirror: Mirror, served: Served, file: Path) -> None:
    as_json = json.loads(planned(mirror, served, file, PLAN, "-o", "json").out)
    as_yaml = yaml.safe_load(planned(mirror, served, file, PLAN, "-o", "yaml").out)
    assert as_json == as_yaml
    assert (as_json["plan"]["name"], as_json["errors"]) == ("link", [])


def test_the_speed_is_bytes_per_second(mirror: Mirror, served: Served, file: Path) -> None:
    assert planned(mirror, served, file, PLAN, "--speed", "5MB/s").code == 0
    planner = served.worker.herder.plans._planner
    assert isinstance(planner, FakePlanner)
    assert planner.speed == 5e6
    wrong = planned(mirror, served, file, PLAN, "--speed", "fast")
    assert (wrong.code, wrong.err.count("\n"), "fast" in wrong.err) == (2, 1, True)


def test_what_would_be_refused_is_code_1(mirror: Mirror, served: Served, file: Path) -> None:
    done = planned(mirror, served, file, Plan("link", SOURCE, refused=[Refusal("A.t", "topic A.t was not created")]))
    assert (done.code, "refused: topic A.t was not created" in done.out) == (1, True)


def test_a_config_that_is_refused_is_code_1_with_its_errors(mirror: Mirror, served: Served, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"name": "link", "config": source_config(tasks__max="abc")}))
    done = planned(mirror, served, wrong, PLAN)
    assert done.code == 1
    assert "refused: Invalid value abc for configuration tasks.max: Not a number of type INT" in done.out


def test_a_cluster_that_is_away_is_one_line_and_code_2(mirror: Mirror, served: Served, file: Path) -> None:
    done = planned(mirror, served, file, ClusterUnreachable("The source cluster A at a:9092 can't be reached"))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "The source cluster A at a:9092 can't be reached" in done.err


def test_no_file_and_no_connector_in_it_is_wrong_usage(mirror: Mirror, served: Served, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    for path in (tmp_path / "no.json", empty):
        done = mirror("plan", str(path), "--worker", served.url)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
