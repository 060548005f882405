"""What people send who mean harm, or whose scripts run wild, to a real worker: its topics stay whole, and so does it.

After all of it the worker is restarted, and then Kafka Connect reads what it has left. Each rule alone, and every way of
writing it: tests/unit/app/rest/test_attacks.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from tests.contract.openapi_fuzz import fuzz
from tests.e2e.hostile import (
    CROWD,
    EXTENSION,
    GROUP,
    HALVES,
    LONG_NAME,
    PASSWORD,
    SLOW,
    STRANGE_CONFIG,
    STRANGE_NAMES,
    TIMES,
    asked,
    at_once,
    basic,
    config_records,
    get,
    heartbeat,
    raw,
    servers,
)
from tests.e2e.product import PATIENCE_S, Product
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2]


@pytest.fixture(scope="module")
def worker(target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A worker that wants a password, with one connector that runs; its client knows the password."""
    directory = tmp_path_factory.mktemp("hostile")
    (directory / "users").write_text(f"admin: {PASSWORD}\n")
    jaas = directory / "jaas.conf"
    jaas.write_text(f'KafkaConnect {{ {EXTENSION}.PropertyFileLoginModule required file="{directory}/users"; }};')
    product = Product(
        target_cluster,
        group=GROUP,
        properties={"rest.extension.classes": f"{EXTENSION}.BasicAuthSecurityRestExtension"},
        environment={"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"},
    )
    product.rest.auth = httpx.BasicAuth("admin", PASSWORD)
    product.rest.timeout = httpx.Timeout(120)
    with product:
        product.put("good", heartbeat(**servers(target_cluster)))
        yield product


# Who may ask, and for what.


@pytest.mark.parametrize(
    ("authorization", "statuses"),
    [
        pytest.param(None, (401,), id="none"),
        pytest.param(basic("admin:wrong"), (401,), id="wrong_password"),
        pytest.param(basic("nobody:" + PASSWORD), (401,), id="wrong_name"),
        pytest.param(basic("admin"), (401,), id="no_colon"),
        pytest.param("Basic " + "A" * 50_001, (401, 500), id="overlong"),
        pytest.param("Basic %%%", (500,), id="broken_base64"),
        pytest.param("Basic " + "/w" * 1000 + "==", (401, 500), id="no_utf_8"),
        pytest.param(f"Bearer {PASSWORD}", (401,), id="another_scheme"),
    ],
)
def test_nobody_gets_in_without_the_password(
    worker: Product, authorization: str | None, statuses: tuple[int, ...]
) -> None:
    for path in ("/", "/connectors?expand=info", "/connectors/good/config", "/admin/loggers", "/docs"):
        answer = get(worker, path, authorization)
        assert int(answer.split()[1]) in (*statuses, 401), path
        assert b"alias" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/connectors/../../../../../../etc/passwd",
        "/connectors/%2e%2e/%2e%2e/etc/passwd",
        "/connectors/..%2f..%2f..%2fetc%2fpasswd/config",
        "/connectors/..%5c..%5cetc%5cpasswd",
        "/connectors/%252e%252e%252fetc",
        "//etc/passwd",
        "/connectors/good%00/config",
        "/connectors/%ff%fe/config",
    ],
)
def test_no_path_leads_out_of_the_resources(worker: Product, path: str) -> None:
    answer = get(worker, path, basic(f"admin:{PASSWORD}"))
    assert int(answer.split()[1]) in (400, 404)
    assert b"root:" not in answer


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "a\nb", "\0", "a\0b", "a\r\n\r\n<html>", "\x7f", "\x85"], ids=ascii)
def test_a_name_with_control_characters_is_refused_by_either_way(
    worker: Product, target_cluster: LocalCluster, name: str
) -> None:
    answers = [
        worker.rest.post("/connectors", json={"name": name, "config": heartbeat(**servers(target_cluster))}),
        worker.rest.put(f"/connectors/{quote(name, safe='')}/config", json=heartbeat(**servers(target_cluster))),
    ]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert ["x-evil" in answer.headers for answer in answers] == [False, False]
    assert worker.rest.get("/connectors").json().count(name) == 0


def test_no_request_of_the_contract_does_or_tells_anything_without_the_password(
    worker: Product, target_cluster: LocalCluster
) -> None:
    before = asked(target_cluster)
    done = fuzz(worker, 4, "--max-examples", "1", "--phases", "examples,fuzzing")
    assert done.returncode == 0, done.stdout
    assert asked(target_cluster) == before


# Bodies.


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"topics": "\xff\xfe"}', id="no_utf_8"),
        pytest.param(b'{"topics": "\xed\xa0\x80"}', id="a_surrogate_as_bytes"),
        pytest.param(b'{"topics": "\\ud800"}', id="half_a_surrogate_pair"),
        pytest.param(b'{"\\udc00": "x"}', id="half_a_pair_as_a_name"),
        pytest.param(b"[" * 100_000, id="arrays_without_end"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="objects_in_objects"),
        pytest.param(b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", id="a_deep_value"),
        pytest.param(json.dumps({**heartbeat(), "filler": "x" * 5_000_000}).encode(), id="5_mb"),
        pytest.param(json.dumps({**heartbeat(), "k" * 5_000_000: "x"}).encode(), id="5_mb_of_a_name"),
    ],
)
def test_a_bad_body_is_refused_with_a_word_and_nothing_is_written(
    worker: Product, target_cluster: LocalCluster, body: bytes
) -> None:
    for method, path, sent in (
        ("PUT", "/connectors/bad/config", body),
        ("POST", "/connectors", b'{"name": "bad", "config": ' + body + b"}"),
        ("PATCH", "/connectors/good/config", body),
    ):
        answer = worker.rest.request(method, path, content=sent, headers={"Content-Type": "application/json"})
        assert (answer.status_code, 0 < len(answer.json()["message"]) < 1000) == (400, True), answer.text[:2000]
    written = dict(config_records(target_cluster))
    assert "connector-bad" not in written
    assert "filler" not in written["connector-good"]["properties"]


def test_a_config_of_5_mb_is_judged_when_nobody_wants_it_kept(worker: Product, target_cluster: LocalCluster) -> None:
    config = {**heartbeat(**servers(target_cluster)), "name": "big", "filler": "x" * 5_000_000}
    answer = worker.rest.put("/connector-plugins/MirrorHeartbeatConnector/config/validate", json=config)
    assert (answer.status_code, answer.json()["error_count"]) == (200, 0)


def test_a_chunked_body_is_a_body(worker: Product, target_cluster: LocalCluster) -> None:
    text = json.dumps(heartbeat(**servers(target_cluster), **{"in.pieces": "yes"})).encode()
    pieces = (text[at : at + 7] for at in range(0, len(text), 7))
    made = worker.rest.put("/connectors/chunked/config", content=pieces, headers={"Content-Type": "application/json"})
    assert made.request.headers["transfer-encoding"] == "chunked"
    assert (made.status_code, made.json()["config"]["in.pieces"]) == (201, "yes")
    worker.delete("chunked")


def test_a_huge_header_is_refused_and_nobody_else_notices(worker: Product) -> None:
    answer = raw(worker, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 3_000_000 + b"\r\nConnection: close\r\n\r\n")
    # It need not be read to its end, so that there may be a reset in the place of the answer.
    assert answer == b"" or answer.split()[1] in (b"400", b"431")
    assert worker.rest.get("/").status_code == httpx.codes.OK


# Many at once, and what is left in the end.


@dataclass
class Seen:
    """What was sent, and what three workers said of it one after the other: ours, ours restarted, Kafka Connect."""

    puts: list[httpx.Response] = field(default_factory=list)
    put_tasks: list[Any] = field(default_factory=list)
    puts_written: list[Any] = field(default_factory=list)
    churn: list[httpx.Response] = field(default_factory=list)
    churn_end: tuple[int, Any] = (0, None)
    locations: dict[str, str] = field(default_factory=dict)
    listed: list[dict[str, Any]] = field(default_factory=list)
    first_after_restart: dict[str, Any] = field(default_factory=dict)
    answered_beside_slow_ones: int = 0
    ended_beside_slow_ones: int | None = None
    log: str = ""


@pytest.fixture(scope="module")
def seen(worker: Product, target_cluster: LocalCluster) -> Iterator[Seen]:
    found = Seen()
    _put_at_once(worker, target_cluster, found)
    _create_and_delete_at_once(worker, target_cluster, found)
    for name in (*STRANGE_NAMES, LONG_NAME):
        config = {**heartbeat(**servers(target_cluster)), **STRANGE_CONFIG} if name == "a/b" else None
        body = {"name": name, "config": config or heartbeat(**servers(target_cluster)), "initial_state": "STOPPED"}
        made = worker.rest.post("/connectors", json=body)
        assert made.status_code == httpx.codes.CREATED, made.text[:500]
        found.locations[name] = made.headers["location"]
    _create_crowd(worker, target_cluster)
    assert worker.rest.put(f"/connectors/{LONG_NAME}/resume").status_code == httpx.codes.ACCEPTED
    worker.wait_running(LONG_NAME)
    worker.wait_running("good")
    with contextlib.ExitStack() as open_ones:
        for number in range(SLOW):
            slow = open_ones.enter_context(socket.create_connection(("127.0.0.1", worker.port), 60))
            slow.sendall(HALVES[number % len(HALVES)])
        found.answered_beside_slow_ones = worker.rest.get("/connectors").status_code
        found.listed.append(_listed(worker))
        found.ended_beside_slow_ones = worker.stop()
    worker.launch()
    found.first_after_restart = wait_for_state(lambda: _everything(worker), "the worker answers", PATIENCE_S)
    found.listed.append(_listed(worker))
    assert worker.stop() == 0
    found.log = worker.log_text()
    with ConnectWorker(target_cluster, group=GROUP, heap="512m") as java:

        def everything() -> bool:
            status, told = java.request("GET", "/connectors?expand=info")
            if status != httpx.codes.OK or len(told) != len(found.listed[1]):
                return False
            found.listed.append(_configs(told))
            return True

        wait_for_state(everything, "Java lists as many connectors", PATIENCE_S)
    yield found
    worker.start()


def _put_at_once(worker: Product, cluster: LocalCluster, found: Seen) -> None:
    def put(number: int) -> httpx.Response:
        # Every other one has no task at all.
        more = {"number": str(number), "emit.heartbeats.enabled": str(number % 2 == 0).lower()}
        return worker.rest.put("/connectors/fought/config", json=heartbeat(**servers(cluster), **more))

    found.puts = at_once([lambda number=number: put(number) for number in range(TIMES)])  # type: ignore[misc]

    def settled() -> bool:
        config = worker.call("GET", "/connectors/fought/config")
        found.put_tasks = worker.call("GET", "/connectors/fought/tasks")
        wanted = [config["number"]] if config["emit.heartbeats.enabled"] == "true" else []
        return [each["config"].get("number") for each in found.put_tasks] == wanted

    wait_for_state(settled, "the tasks are those of the last config", PATIENCE_S)
    found.puts_written = [value for key, value in config_records(cluster) if key == "connector-fought"]


def _create_and_delete_at_once(worker: Product, cluster: LocalCluster, found: Seen) -> None:
    body = {"name": "churned", "config": heartbeat(**servers(cluster)), "initial_state": "STOPPED"}

    def turn(number: int) -> httpx.Response:
        if number % 2:
            return worker.rest.delete("/connectors/churned")
        return worker.rest.post("/connectors", json=body)

    found.churn = at_once([lambda number=number: turn(number) for number in range(TIMES)])  # type: ignore[misc]
    found.churn_end = (
        worker.rest.get("/connectors/churned").status_code,
        dict(config_records(cluster)).get("connector-churned"),
    )
    worker.rest.delete("/connectors/churned")
    made = worker.rest.post("/connectors", json=body)
    assert made.status_code == httpx.codes.CREATED, made.text


def _create_crowd(worker: Product, cluster: LocalCluster) -> None:
    def create(name: str) -> int:
        body = {"name": name, "config": heartbeat(**servers(cluster)), "initial_state": "STOPPED"}
        return worker.rest.post("/connectors", json=body).status_code

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(create, CROWD)) == {httpx.codes.CREATED}
    wait_for_state(lambda: set(CROWD) <= (_everything(worker) or {}).keys(), "every connector has a status", PATIENCE_S)


def _everything(worker: Product) -> dict[str, Any] | None:
    """All connectors that have a status, as soon as the worker answers that."""
    worker.check_alive()
    with contextlib.suppress(httpx.TransportError):
        answer = worker.rest.get("/connectors?expand=status&expand=info")
        if answer.status_code == httpx.codes.OK:
            return dict(answer.json())
    return None


def _listed(worker: Product) -> dict[str, Any]:
    return _configs(worker.call("GET", "/connectors?expand=info"))


def _configs(told: dict[str, Any]) -> dict[str, Any]:
    return {name: each["info"]["config"] for name, each in told.items()}


def test_of_fifty_puts_at_once_one_created_and_each_was_written(seen: Seen) -> None:
    assert sorted(answer.status_code for answer in seen.puts) == [200] * (TIMES - 1) + [201]
    assert {value["properties"]["number"] for value in seen.puts_written} == {str(n) for n in range(TIMES)}


def test_the_config_of_fifty_puts_is_the_one_that_was_written_last(seen: Seen) -> None:
    assert seen.listed[0]["fought"] == seen.puts_written[-1]["properties"]


def test_creations_and_deletions_at_once_are_answered_as_each_finds_it(seen: Seen) -> None:
    assert {answer.status_code for answer in seen.churn} <= {201, 204, 404, 409}
    made = [answer.status_code for answer in seen.churn].count(201)
    gone = [answer.status_code for answer in seen.churn].count(204)
    status, written = seen.churn_end
    assert (status, written is not None, made - gone) in ((200, True, 1), (404, False, 0))


def test_locations_are_plain_letters_and_lead_to_the_connector(seen: Seen) -> None:
    assert [name for name, location in seen.locations.items() if not re.fullmatch(r"http://[!-~]+", location)] == []


def test_who_sends_half_a_request_holds_nobody_up(seen: Seen) -> None:
    assert seen.answered_beside_slow_ones == httpx.codes.OK


def test_who_sends_half_a_request_does_not_hold_the_workers_end_up(seen: Seen) -> None:
    assert seen.ended_beside_slow_ones == 0


def test_a_restart_finds_every_connector_and_config_as_it_was(seen: Seen) -> None:
    assert seen.listed[1] == seen.listed[0]
    assert set(seen.listed[1]) == {*STRANGE_NAMES, LONG_NAME, *CROWD, "good", "fought", "churned"}


def test_the_first_answer_after_a_restart_has_info_and_status_of_two_hundred(seen: Seen) -> None:
    told = {name: sorted(seen.first_after_restart.get(name, {})) for name in CROWD}
    assert [name for name, members in told.items() if members != ["info", "status"]] == []


def test_java_reads_every_connector_and_config_as_it_was(seen: Seen) -> None:
    assert seen.listed[2] == seen.listed[0]


def test_nothing_of_all_that_was_a_mistake_of_ours(seen: Seen) -> None:
    assert [line for line in seen.log.splitlines() if "Traceback" in line or " ERROR " in line] == []
