"""The REST interface over a real socket, against what Kafka Connect 4.3.1 was seen to answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mirror_connect.app.herder.herder import TopicTracking
from mirror_connect.app.rest.basic_auth import UsersFile
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import SOURCE, FakeMembership, FakeWorker, eventually, serving, source_config


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder) as connected:
        yield connected


def error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


async def created(client: httpx.AsyncClient, worker: FakeWorker, name: str = "a", **more: str) -> None:
    assert (await client.post("/connectors", json={"name": name, "config": source_config(**more)})).status_code == 201
    await worker.state(name, "RUNNING", ["RUNNING"] * int(more.get("tasks__max", "1")))


async def raw(client: httpx.AsyncClient, path: bytes) -> httpx.Response:
    """A request whose path is sent as it stands."""
    url = client.base_url.copy_with(raw_path=path)
    return await client.send(httpx.Request("GET", url))


async def test_the_root_tells_version_commit_and_cluster(client: httpx.AsyncClient) -> None:
    answer = await client.get("/")
    assert answer.json() == {
        "version": "4.3.1",
        "commit": answer.json()["commit"],
        "kafka_cluster_id": "cluster-id",
    }


async def test_a_healthy_worker_says_so(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "healthy")


async def test_a_worker_that_reads_its_topics_is_starting() -> None:
    async with serving(FakeWorker().herder) as client:
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")


@pytest.mark.parametrize("path", ["/", "/health", "/connectors", "/connectors/a/topics", "/connector-plugins"])
async def test_head_is_answered_wherever_get_is(client: httpx.AsyncClient, path: str) -> None:
    got, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize("path", ["/nope", "/connectors/none/nope", "/connectors/none/tasks-config", "/Connectors"])
async def test_an_unknown_path_is_404(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()) == (404, error(404, "HTTP 404 Not Found"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/"),
        ("PUT", "/health"),
        ("DELETE", "/connectors"),
        ("POST", "/connectors/a/pause"),
        ("GET", "/connectors/a/tasks/0/restart"),
        ("GET", "/connectors/a/topics/reset"),
        ("DELETE", "/connectors/a/topics"),
        ("POST", "/connector-plugins"),
        ("HEAD", "/connectors/a/pause"),
    ],
)
async def test_a_wrong_method_is_405(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    if method != "HEAD":
        assert answer.json() == error(405, "HTTP 405 Method Not Allowed")


async def test_options_lists_the_methods(client: httpx.AsyncClient) -> None:
    answer = await client.request("OPTIONS", "/connectors")
    assert answer.headers["content-type"].startswith("text/plain")
    assert set(answer.headers["allow"].split(",")) == {"HEAD", "GET", "POST", "OPTIONS"} == set(answer.text.split(", "))


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/xml", 406),
        ("application/json;q=0", 200),
        ("application/json;q=2", 400),
        ("json", 406),
        ("*", 200),
        ("text/html;q=0.9, application/json;q=0.5", 200),
        ("application/*", 200),
        ("*/*", 200),
        ("application/json; charset=utf-8", 200),
    ],
)
async def test_who_reads_no_json_gets_406(client: httpx.AsyncClient, accept: str, status: int) -> None:
    assert (await client.get("/connectors", headers={"Accept": accept})).status_code == status


@pytest.mark.parametrize("content_type", ["text/plain", "application/vnd.demo+json", "application/*", "*/*", None])
async def test_a_body_that_is_not_called_json_is_415(client: httpx.AsyncClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = await client.post("/connectors", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()) == (415, error(415, "HTTP 415 Unsupported Media Type"))


@pytest.mark.parametrize("path", [b"//connectors", b"/connectors/a%2Fb", b"/connectors/%00", b"/connectors/%2e%2e/x"])
async def test_an_ambiguous_path_is_refused_with_a_page(client: httpx.AsyncClient, path: bytes) -> None:
    answer = await raw(client, path)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (400, "text/html")


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
    worker.parts.silent.add("a")
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


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="array"),
        pytest.param(b'"c"', id="text"),
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no_member"),
        pytest.param(b'{"name":"a"}', id="no_config"),
        pytest.param(b'{"name":"a","config":[]}', id="config_array"),
        pytest.param(b'{"name":"a","config":"x"}', id="config_text"),
        pytest.param(b'{"name":"a","config":{"a":{}}}', id="value_object"),
        pytest.param(b'{"name":"a","config":{},"extra":1}', id="unknown_member"),
        pytest.param(b'{"name":"a","config":{},"initial_state":"BANANA"}', id="unknown_state"),
        pytest.param(b'{"name":"a","config":{},"initial_state":1}', id="number_state"),
        pytest.param(b'{"name":', id="malformed"),
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
async def test_a_body_that_makes_no_sense_is_400_with_a_text(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == answer.json()["error_code"] == 400
    assert len(answer.json()["message"]) > 20


async def test_a_body_of_any_size_is_not_taken(client: httpx.AsyncClient) -> None:
    body = b'{"name":"a","config":{"x":"' + b"x" * (17 << 20) + b'"}}'
    answer = await client.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


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
    await worker.herder.put("a", source_config())
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


async def test_the_plugins_are_listed(client: httpx.AsyncClient) -> None:
    plugins = (await client.get("/connector-plugins")).json()
    assert {"class": SOURCE, "type": "source", "version": "4.3.1"} in plugins
    assert {plugin["type"] for plugin in plugins} == {"source"}


@pytest.mark.parametrize("flag", ["false", "banana"])
async def test_plugins_that_are_no_connectors_are_listed_behind_them_if_asked_for(
    client: httpx.AsyncClient, flag: str
) -> None:
    plugins = (await client.get(f"/connector-plugins?connectorsOnly={flag}")).json()
    converter = {"class": "org.apache.kafka.connect.converters.ByteArrayConverter", "version": "4.3.1"}
    assert {**converter, "type": "converter"} in plugins[3:]
    assert {**converter, "type": "header_converter"} in plugins[3:]


@pytest.mark.parametrize("plugin", [SOURCE, "MirrorSourceConnector", "MirrorSource"])
async def test_a_plugin_tells_its_settings(client: httpx.AsyncClient, plugin: str) -> None:
    settings = (await client.get(f"/connector-plugins/{plugin}/config?version=4.3.1")).json()
    assert settings[0]["name"] == "name"


async def test_a_broken_version_of_a_plugin_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/connector-plugins/MirrorSource/config?version=%5Bx")
    assert (answer.status_code, answer.json()) == (400, error(400, "Invalid version specification: [x"))


async def test_a_config_is_validated_and_nothing_stored(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    answer = await client.put("/connector-plugins/MirrorSource/config/validate", json=source_config(tasks__max="abc"))
    assert (answer.status_code, answer.json()["name"]) == (200, SOURCE)
    wrong = {
        each["value"]["name"]: each["value"]["errors"] for each in answer.json()["configs"] if each["value"]["errors"]
    }
    assert set(wrong) == {"name", "tasks.max"}
    assert worker.written() == []


async def test_a_validated_secret_is_quoted_as_its_reference(client: httpx.AsyncClient) -> None:
    config = source_config(topics="${file:/secrets:password}", name="a")
    answer = await client.put("/connector-plugins/MirrorSource/config/validate", json=config)
    assert "hunter2" not in answer.text
    assert "${file:/secrets:password}" in answer.text


async def test_a_validated_class_has_to_fit_the_path(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connector-plugins/Nope/config/validate", json=source_config())
    assert answer.json() == error(400, f"Included connector type {SOURCE} does not match request type Nope")


async def test_without_credentials_only_what_does_not_exist_is_told(worker: FakeWorker) -> None:
    async with serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as client:
        refused = [
            await client.get("/"),
            await client.get("/health"),
            await client.request("OPTIONS", "/connectors"),
            await client.put("/connectors/a/config", json={}),
        ]
        assert {(answer.status_code, answer.text) for answer in refused} == {(401, "User cannot access the resource.")}
        assert not any("www-authenticate" in answer.headers for answer in refused)
        assert (await client.get("/nope")).status_code == 404
        assert (await client.head("/", auth=("admin", "s3cret"))).status_code == 200
        assert (await client.head("/", auth=("admin", "wrong"))).status_code == 401


async def test_a_mistake_of_ours_is_a_500_that_tells_nothing(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(name: str) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(worker.herder, "config", mistaken)
    async with serving(worker.herder) as client:
        answer = await client.get("/connectors/a/config")
    assert answer.status_code == answer.json()["error_code"] == 500
    assert "hunter2" not in answer.text


async def test_a_worker_that_ends_says_so_and_writes_nothing(worker: FakeWorker) -> None:
    async with serving(worker.herder) as client:
        await worker.herder.end_parts()
        answer = await client.put("/connectors/a/config", json=source_config())
    assert (answer.status_code, answer.json()) == (503, error(503, "The worker is shutting down"))
    assert worker.written() == []


async def test_parallel_puts_of_one_connector_leave_one_of_their_configs(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    configs = [source_config(my__note=str(number)) for number in range(50)]
    answers = await asyncio.gather(*(client.put("/connectors/a/config", json=config) for config in configs))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    last = (await client.get("/connectors/a/config")).json()
    await eventually(lambda: {**worker.parts.running["a"].raw} == last if "a" in worker.parts.running else False)
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert (await client.get("/connectors/a/tasks")).json()[0]["config"]["my.note"] == last["my.note"]
