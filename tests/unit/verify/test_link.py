"""Links from a connector's config, from files, and from a worker's REST interface."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import WorkerRest, described_link, link_of, positions_in

CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "topics": "orders.*",
}
A_FILE = {"bootstrap.servers": "elsewhere:9092", "security.protocol": "SASL_SSL"}


class _Worker(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, Any]]
    asked: list[str | None]

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization"))
        status, body = self.answers.get(self.path, (404, {}))
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def worker() -> Iterator[tuple[str, type[_Worker]]]:
    handler = type("_Fresh", (_Worker,), {"answers": {}, "asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_connectors_config_says_everything() -> None:
    link = link_of("m", {**CONFIG, "source.consumer.isolation.level": "read_committed"})
    assert link.source.consumer["bootstrap.servers"] == "a:9092"
    assert link.target.consumer["bootstrap.servers"] == "b:9092"
    assert link.remote_topic("orders") == "A.orders"
    assert link.selection.should_replicate("orders-1")
    assert not link.selection.should_replicate("payments")
    assert link.committed


def test_a_file_replaces_the_way_to_a_cluster_but_not_how_the_link_reads() -> None:
    link = link_of("m", {**CONFIG, "source.consumer.isolation.level": "read_committed"}, source=A_FILE)
    assert link.source.admin == A_FILE
    assert link.source.consumer["bootstrap.servers"] == "elsewhere:9092"
    assert link.committed


ROUTE = {
    "transforms": "route",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": r"A\.(?<name>.*)",
    "transforms.route.replacement": "sales-${name}",
}


def test_copies_are_looked_for_where_routes_lead() -> None:
    assert link_of("m", {**CONFIG, **ROUTE}).remote_topic("orders") == "sales-orders"


@pytest.mark.parametrize(
    ("setting", "text"),
    [("spark.transform.sql", "SELECT * FROM records WHERE offset > 3"), ("spark.transform.python", "masking:mask")],
)
def test_copies_of_records_that_spark_transforms_are_not_compared(setting: str, text: str) -> None:
    with pytest.raises(CannotCompareError, match=rf"m transforms records \({setting}\)"):
        link_of("m", {**CONFIG, setting: text})


def test_copies_of_other_records_are_not_compared() -> None:
    config = {**CONFIG, **ROUTE, "transforms": "route,all", "transforms.all.type": "Filter"}
    with pytest.raises(CannotCompareError, match=r"m transforms records \(route,all\)"):
        link_of("m", config)


def test_a_route_that_only_the_worker_knows_is_named() -> None:
    config = {**CONFIG, **ROUTE, "transforms.route.replacement": "${file:/a:b}"}
    with pytest.raises(CannotCompareError, match=r"holds transforms\.route\.replacement of m"):
        link_of("m", config)


def test_what_only_the_worker_can_resolve_is_asked_for() -> None:
    config = {**CONFIG, "source.cluster.sasl.jaas.config": "${file:/secrets:jaas}"}
    with pytest.raises(
        CannotCompareError, match=r"a config provider of the worker holds sasl.jaas.config.*--source FILE"
    ):
        link_of("m", config)
    assert link_of("m", config, source=A_FILE).source.admin == A_FILE


def test_the_workers_own_cluster_has_to_be_given() -> None:
    config = {name: value for name, value in CONFIG.items() if not name.startswith("target.cluster.boot")}
    with pytest.raises(CannotCompareError, match=r"writes to the cluster of its worker: .*--target FILE"):
        link_of("m", config)


def test_a_connector_that_copies_no_topics_is_refused() -> None:
    with pytest.raises(CannotCompareError, match="is a MirrorHeartbeatConnector"):
        link_of("m", {**CONFIG, "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"})


def test_options_describe_a_link_too() -> None:
    settings = {"topics": "orders", "replication.policy.class": IDENTITY_POLICY}
    link = described_link(source=A_FILE, target=A_FILE, settings=settings)
    assert link.remote_topic("orders") == "orders"
    assert not link.committed


def test_a_file_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap.servers: the source cluster's properties have none"):
        described_link(source={}, target=A_FILE, settings={})


def test_no_secret_is_in_the_repr_of_a_link() -> None:
    link = described_link(source={**A_FILE, "ssl.key.password": "hush"}, target=A_FILE, settings={})
    assert "hush" not in repr(link)


def test_positions_are_read_as_connect_lists_them() -> None:
    body = {
        "offsets": [
            {"partition": {"cluster": "A", "partition": 2, "topic": "t"}, "offset": {"offset": 41}},
            {"partition": {"something": "else"}, "offset": {"offset": 1}},
            {"partition": {"cluster": "A", "partition": 3, "topic": "t"}, "offset": None},
        ]
    }
    assert positions_in(body) == {("t", 2): 41}


async def test_a_worker_tells_config_and_positions(worker: tuple[str, type[_Worker]]) -> None:
    url, handler = worker
    offsets = {"offsets": [{"partition": {"cluster": "A", "partition": 0, "topic": "t"}, "offset": {"offset": 9}}]}
    handler.answers = {"/connectors/a%20b/config": (200, CONFIG), "/connectors/a%20b/offsets": (200, offsets)}
    rest = WorkerRest(url + "/", ("me", "secret"))
    assert await rest.config("a b") == CONFIG
    assert await rest.positions("a b") == {("t", 0): 9}
    assert handler.asked == ["Basic bWU6c2VjcmV0"] * 2


async def test_a_worker_without_offsets_endpoint_leaves_the_positions_open(worker: tuple[str, type[_Worker]]) -> None:
    assert await WorkerRest(worker[0]).positions("m") is None


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (404, {}, "has no connector m"),
        (401, {}, "refused the login"),
        (500, {}, "answered 500 to /connectors/m/config$"),
        (500, {"error_code": 500, "message": "its end is unknown"}, "answered 500 to .*/config: its end is unknown$"),
        (500, ["no answer of Connect's"], "answered 500 to /connectors/m/config$"),
    ],
)
async def test_what_a_worker_refuses_is_one_clear_line(
    worker: tuple[str, type[_Worker]], status: int, body: Any, told: str
) -> None:
    worker[1].answers = {"/connectors/m/config": (status, body)}
    with pytest.raises(CannotCompareError, match=told):
        await WorkerRest(worker[0]).config("m")


async def test_no_worker_is_one_clear_line() -> None:
    with pytest.raises(CannotCompareError, match="is unreachable"):
        await WorkerRest("http://127.0.0.1:1").config("m")


def test_positions_of_an_alias_that_the_connector_had_before_are_left_out() -> None:
    def entry(cluster: str, offset: int) -> dict[str, object]:
        return {"partition": {"cluster": cluster, "topic": "t", "partition": 0}, "offset": {"offset": offset}}

    assert positions_in({"offsets": [entry("now", 5), entry("before", 99)]}, "now") == {("t", 0): 5}
