"""PUT /connector-plugins/{plugin}/config/plan over a real socket."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from mirror_connect.app.planning.plan import Plan, PlannedTasks
from mirror_connect.app.planning.planner import Existing
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.rest_answers import created, error

PATH = "/connector-plugins/MirrorSource/config/plan"
CONFIG = {**source_config(), "name": "a"}


class FakePlanner:
    """Keeps what it is asked."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.asked: list[tuple[Mapping[str, str], Existing | None, float | None]] = []

    async def plan(
        self,
        raw: Mapping[str, str],
        resolved: Mapping[str, str],
        existing: Existing | None = None,
        speed: float | None = None,
    ) -> Plan:
        if self.failure is not None:
            raise self.failure
        self.asked.append((resolved, existing, speed))
        return Plan(raw["name"], raw["connector.class"], existing is not None, tasks=PlannedTasks(0, 1))


@pytest.fixture
def planner(worker: FakeWorker) -> FakePlanner:
    worker.herder.plans._planner = made = FakePlanner()
    return made


async def test_a_plan_comes_with_its_validation_and_stores_nothing(
    client: httpx.AsyncClient, worker: FakeWorker, planner: FakePlanner
) -> None:
    before = worker.written()
    answer = await client.put(PATH, json=CONFIG)
    body = answer.json()
    assert (answer.status_code, body["errors"], body["validation"]["error_count"]) == (200, [], 0)
    assert (body["plan"]["name"], body["plan"]["exists"], body["plan"]["tasks"]["then"]) == ("a", False, 1)
    assert (worker.written(), (await client.get("/connectors")).json()) == (before, [])


async def test_a_wrong_config_is_answered_as_by_validate_and_no_cluster_is_asked(
    client: httpx.AsyncClient, planner: FakePlanner
) -> None:
    wrong = {**CONFIG, "tasks.max": "abc"}
    body = (await client.put(PATH, json=wrong)).json()
    validated = (await client.put(PATH.replace("plan", "validate"), json=wrong)).json()
    assert (body["validation"], body["plan"], planner.asked) == (validated, None, [])
    assert body["errors"][0] == "Invalid value abc for configuration tasks.max: Not a number of type INT"


async def test_a_plan_of_an_existing_connector_knows_what_runs(
    client: httpx.AsyncClient, worker: FakeWorker, planner: FakePlanner
) -> None:
    await created(client, worker, tasks__max="2")
    body = (await client.put(f"{PATH}?speed=5e6", json=CONFIG)).json()
    _, existing, speed = planner.asked[0]
    assert existing is not None
    assert (body["plan"]["exists"], existing.config["tasks.max"], len(existing.tasks), speed) == (True, "2", 2, 5e6)


@pytest.mark.parametrize("speed", ["0", "-1", "fast", "inf", "nan"])
async def test_a_speed_that_is_none_is_refused(client: httpx.AsyncClient, planner: FakePlanner, speed: str) -> None:
    answer = await client.put(f"{PATH}?speed={speed}", json=CONFIG)
    line = f"Invalid speed {speed}: give a number of bytes per second, above 0"
    assert (answer.status_code, answer.json(), planner.asked) == (400, error(400, line), [])


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        pytest.param(ClusterUnreachable("no broker answers at hunter2-hunter2"), 502, id="away"),
        pytest.param(NotAuthorized("refused hunter2-hunter2"), 502, id="refused"),
        pytest.param(ConfigError("ssl.keystore.location", "hunter2-hunter2", "no such file"), 400, id="unusable"),
    ],
)
async def test_a_cluster_that_gives_no_answer_is_one_line_without_secrets(
    client: httpx.AsyncClient, planner: FakePlanner, failure: Exception, status: int
) -> None:
    planner.failure = failure
    secret = {**CONFIG, "source.cluster.sasl.jaas.config": "${file:/secrets:password}"}
    answer = await client.put(PATH, json=secret)
    assert (answer.status_code, answer.json()["error_code"]) == (status, status)
    assert "hunter2" not in answer.text
    assert "[hidden]" in answer.text


async def test_secrets_of_a_plan_are_hidden_in_the_log_as_of_a_connector(
    client: httpx.AsyncClient, worker: FakeWorker, planner: FakePlanner
) -> None:
    secret = {**CONFIG, "source.cluster.sasl.jaas.config": "${file:/secrets:password}"}
    await client.put(PATH, json=secret)
    assert worker.resolver.told
    assert planner.asked[0][0]["source.cluster.sasl.jaas.config"] == "hunter2-hunter2"
