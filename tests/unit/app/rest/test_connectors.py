"""/connectors … over a real socket, as Kafka Connect 4.3.1 was seen to answer."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from mirror_connect.app.herder.active_topics import TopicTracking
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import SOURCE, FakeMembership, FakeWorker, eventually, serving, source_config
from tests.fakes.rest_answers import created, error, raw


async def test_a_created_connector_is_answered_as_sent_with_its_name_added(client: httpx.AsyncClient) -> None:
    answer = await client.post("/connectors", json={"name": "a", "config": source_config()})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{client.base_url}/connectors/a"
    assert answer.json() == {"name": "a", "config": {**source_config(), "name": "a"}, "tasks": [], "type": "source"}
    assert list(answer.json()["config"]) == [*source_config(), "name"]


@pytest.mark.parametrize(
    ("sent", "name", "path"),
    [
        pytest.param("  n-trim  ", "n-trim", "/connectors/n-trim", id="trimmed"),
        pytest.param("n sp", "n sp", "/connectors/n%20sp", id="space"),
        pytest.param("n+plus", "n+plus", "/connectors/n+plus", id="plus"),
        pytest.param("n:a@b", "n:a@b", "/connectors/n:a@b", id="colon"),
        pytest.param("n-gr\u00f6\u00dfe", "n-gr\u00f6\u00dfe", "/connectors/n-gr%C3%B6%C3%9Fe", id="unicode"),
        pytest.param("A->B", "A->B", "/connectors/A-%3EB", id="arrow"),
        pytest.param(17, "17", "/connectors/17", id="number"),
    ],
)
async def test_a_name_is_found_at_its_location(client: httpx.AsyncClient, sent: object, name: str, path: str) -> None:
    answer = await client.post("/connectors", json={"name": sent, "config": source_config()})
    assert answer.headers["location"].removeprefix(str(client.base_url)) == path
    assert (await raw(client, path.encode() + b"/config")).json()["name"] == name


async def test_put_takes_the_name_as_it_is(client: httpx.AsyncClient) -> None:
    assert (await client.put("/connectors/%20n%20/config", json=source_config())).json()["name"] == " n "
    assert (await client.get("/connectors/n")).json() == error(404, "Connector n not found")


async def test_a_put_is_201_at_first_and_200_then(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    first = await client.put("/connectors/a/config", json=source_config())
    await worker.state("a", "RUNNING", ["RUNNING"])
    second = await client.put("/connectors/a/config", json=source_config())
    assert (first.status_code, second.status_code) == (201, 200)
    assert "location" in first.headers
    assert second.json()["tasks"] == [{"connector": "a", "task": 0}]


async def test_a_connector_and_its_tasks_are_answered(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker, tasks__max="2")
    assert (await client.get("/connectors/a")).json()["tasks"] == [
        {"connector": "a", "task": 0},
        {"connector": "a", "task": 1},
    ]
    tasks = (await client.get("/connectors/a/tasks")).json()
    assert [task["id"] for task in tasks] == [{"connector": "a", "task": 0}, {"connector": "a", "task": 1}]
    assert tasks[1]["config"]["task.index"] == "1"


async def test_a_status_is_answered_without_a_trace(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    running = {"state": "RUNNING", "worker_id": "worker-1:8083", "version": "4.3.1"}
    assert (await client.get("/connectors/a/status")).json() == {
        "name": "a",
        "connector": running,
        "tasks": [{"id": 0, **running}],
        "type": "source",
    }
    assert (await client.get("/connectors/a/tasks/0/status")).json() == {"id": 0, **running}


async def test_a_failed_task_has_a_trace_and_no_version(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    worker.supervisor.failing[TaskId("a", 0)] = "Boom\n"
    await client.post("/connectors", json={"name": "a", "config": source_config()})
    await worker.state("a", "RUNNING", ["FAILED"])
    task = (await client.get("/connectors/a/tasks/0/status")).json()
    assert (task["state"], task["version"], task["trace"]) == ("FAILED", None, "Boom\n")


async def test_the_list_is_one_line_of_names(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    await created(client, worker, "b")
    assert (await client.get("/connectors/")).text == '["a","b"]'


async def test_an_expanded_list_holds_what_was_asked_for(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    both = (await client.get("/connectors?expand=info&expand=status")).json()
    assert both["a"]["info"] == (await client.get("/connectors/a")).json()
    assert both["a"]["status"] == (await client.get("/connectors/a/status")).json()
    assert (await client.get("/connectors?expand=info,status")).json() == {"a": {}}
    assert list((await client.get("/connectors?expand=status")).json()["a"]) == ["status"]


async def test_a_connector_without_a_status_is_left_out_of_the_expanded_list(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    worker.connectors.silent.add("a")
    await client.post("/connectors", json={"name": "a", "config": source_config()})
    assert (await client.get("/connectors?expand=status")).json() == {}
    assert list((await client.get("/connectors?expand=info")).json()) == ["a"]


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/connectors/none", "Connector none not found"),
        ("GET", "/connectors/none/config", "Connector none not found"),
        ("GET", "/connectors/none/tasks", "Connector none not found"),
        ("DELETE", "/connectors/none", "Connector none not found"),
        ("GET", "/connectors/none/status", "No status found for connector none"),
        ("GET", "/connectors/none/tasks/-1/status", "No status found for task none--1"),
        ("GET", "/connectors/none/tasks/x/status", "HTTP 404 Not Found"),
        ("POST", "/connectors/none/tasks/99999999999/restart", "HTTP 404 Not Found"),
        ("GET", f"/connectors/none/tasks/{9:05000d}9/status", "No status found for task none-99"),
        ("GET", "/connectors/none/tasks/" + "9" * 5000 + "/status", "HTTP 404 Not Found"),
        ("PUT", "/connectors/none/pause", "Unknown connector none"),
        ("PUT", "/connectors/none/resume", "Unknown connector none"),
        ("PUT", "/connectors/none/stop", "Unknown connector none"),
        ("POST", "/connectors/none/restart", "Unknown connector: none"),
        ("POST", "/connectors/none/restart?includeTasks=true", "Unknown connector: none"),
        ("POST", "/connectors/none/tasks/0/restart", "Unknown connector: none"),
    ],
)
async def test_what_is_unknown_is_404_in_its_wording(
    client: httpx.AsyncClient, method: str, path: str, message: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()) == (404, error(404, message))


async def test_an_unknown_connector_has_no_topics(client: httpx.AsyncClient) -> None:
    assert (await client.get("/connectors/none/topics")).json() == {"none": {"topics": []}}
    assert (await client.put("/connectors/none/topics/reset")).status_code == 202


async def test_topics_are_listed_and_reset(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    worker.supervisor.wrote(TaskId("a", 0), ["A.orders"])
    await eventually(lambda: bool(worker.statuses.topics("a")))
    assert (await client.get("/connectors/a/topics")).json() == {"a": {"topics": ["A.orders"]}}
    await client.put("/connectors/a/topics/reset")
    await eventually(lambda: not worker.statuses.topics("a"))


@pytest.mark.parametrize(
    ("tracking", "method", "path", "message"),
    [
        (TopicTracking(enabled=False), "GET", "topics", "Topic tracking is disabled."),
        (TopicTracking(enabled=False), "PUT", "topics/reset", "Topic tracking is disabled."),
        (TopicTracking(reset_allowed=False), "PUT", "topics/reset", "Topic tracking reset is disabled."),
    ],
)
async def test_topic_tracking_switched_off_is_403(
    tracking: TopicTracking, method: str, path: str, message: str
) -> None:
    async with FakeWorker(tracking=tracking).running() as worker, serving(worker.herder) as client:
        answer = await client.request(method, f"/connectors/a/{path}")
        assert (answer.status_code, answer.json()) == (403, error(403, message))


async def test_the_actions_answer_as_connect_does(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    answers = [
        await client.put("/connectors/a/pause"),
        await client.put("/connectors/a/resume", json={"a": 1}),
        await client.post("/connectors/a/restart?includeTasks=banana&onlyFailed=false&forward=false"),
        await client.put("/connectors/a/stop"),
        await client.delete("/connectors/a"),
    ]
    assert [(answer.status_code, answer.content) for answer in answers] == [
        (202, b""),
        (202, b""),
        (204, b""),
        (204, b""),
        (204, b""),
    ]


async def test_a_restart_with_tasks_answers_the_plan(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    answer = await client.post("/connectors/a/restart?includeTasks=TRUE")
    assert answer.status_code == 202
    assert (answer.json()["connector"]["state"], answer.json()["tasks"][0]["state"]) == ("RESTARTING", "RESTARTING")


async def test_the_errors_of_a_config_are_listed_in_connects_words(client: httpx.AsyncClient) -> None:
    answer = await client.post("/connectors", json={"config": source_config()})
    assert answer.json() == error(
        400,
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        "Invalid value  for configuration name: String may not be empty\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`",
    )


async def test_a_null_for_the_name_is_the_name_of_the_path(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connectors/a/config", json={"name": None, **source_config()})
    assert (answer.status_code, answer.json()["config"]["name"]) == (201, "a")


@pytest.mark.parametrize("body", [b"", b" ", b"null"])
async def test_a_patch_of_nothing_looks_for_the_connector_first(
    client: httpx.AsyncClient, worker: FakeWorker, body: bytes
) -> None:
    await worker.herder.configs.put("a", source_config())
    headers = {"Content-Type": "application/json"}
    answers = [await client.patch(f"/connectors/{name}/config", content=body, headers=headers) for name in ("a", "b")]
    assert [answer.status_code for answer in answers] == [400, 404]


async def test_a_null_value_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connectors/a/config", json={**source_config(), "n": None})
    assert "Null value can not be supplied as the configuration value." in answer.json()["message"]


async def test_numbers_and_booleans_are_stored_as_text(client: httpx.AsyncClient) -> None:
    members = ",".join(f'"{name}":{json.dumps(value)}' for name, value in source_config().items())
    body = f'{{{members},"my.a":1.50,"my.b":1e3,"my.c":true}}'
    await client.put("/connectors/a/config", content=body, headers={"Content-Type": "application/json"})
    config = (await client.get("/connectors/a/config")).json()
    assert (config["my.a"], config["my.b"], config["my.c"]) == ("1.50", "1e3", "true")


async def test_a_config_without_a_class_is_quoted_without_its_passwords(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connectors/a/config", json={"sasl.jaas.config": "hunter2"})
    assert answer.json() == error(
        400, "Connector config {sasl.jaas.config=[hidden], name=a} contains no connector type"
    )


async def test_an_unknown_class_is_refused_with_the_known_ones(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connectors/a/config", json={"connector.class": "com.example.Nope"})
    assert answer.status_code == 400
    assert "com.example.Nope" in answer.json()["message"]
    assert SOURCE in answer.json()["message"]


async def test_a_patch_changes_some_settings(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker, my__a="1")
    answer = await client.patch("/connectors/a/config", json={"my.a": None, "my.b": 3})
    assert answer.json()["config"] == {**source_config(), "name": "a", "my.b": "3"}


async def test_an_existing_name_is_a_conflict(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await created(client, worker)
    answer = await client.post("/connectors", json={"name": "a", "config": source_config()})
    assert (answer.status_code, answer.json()) == (409, error(409, "Connector a already exists"))


async def test_a_standby_answers_409_to_writes() -> None:
    membership = FakeMembership(is_leader=False, leader_url="http://other:8083/")
    async with FakeWorker(membership=membership).running() as worker, serving(worker.herder) as client:
        answer = await client.put("/connectors/a/config", json=source_config())
        assert (await client.get("/connectors")).status_code == 200
    message = (
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance). "
        "This worker stands by; send the request to the leader, http://other:8083/"
    )
    assert (answer.status_code, answer.json()) == (409, error(409, message))


async def test_parallel_puts_of_one_connector_leave_one_of_their_configs(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    configs = [source_config(my__note=str(number)) for number in range(50)]
    answers = await asyncio.gather(*(client.put("/connectors/a/config", json=config) for config in configs))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    last = (await client.get("/connectors/a/config")).json()
    await eventually(
        lambda: {**worker.connectors.running["a"].raw} == last if "a" in worker.connectors.running else False
    )
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert (await client.get("/connectors/a/tasks")).json()[0]["config"]["my.note"] == last["my.note"]
