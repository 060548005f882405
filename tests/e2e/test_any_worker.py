"""Three workers share connectors, and each of them answers any request, as a console that knows only one asks it.

Requests between the workers go over https. A worker of another group on the same topics is refused.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from deploy.local import LocalCluster, free_port
from deploy.local.connect import ConnectWorker
from tests.e2e.product import Product
from tests.fakes.certificates import party
from tests.waiting import PATIENCE_S, wait_for_state

# test_sharing.py has changes made and statuses read at each of three workers. tests/unit/app/rest has https between workers.
pytestmark = [pytest.mark.brokers, pytest.mark.long]

SESSION_S: Final = 6.0
# One for each worker.
NAMES: Final = ("one", "two", "three")
HEARTBEAT: Final = "MirrorHeartbeatConnector"
EXISTS: Final = "Connector one already exists"


def heartbeat(cluster: LocalCluster, **more: str) -> dict[str, str]:
    return {
        "connector.class": HEARTBEAT,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        **{f"source.cluster.{name}": value for name, value in cluster.client_properties().items()},
        **{f"target.cluster.{name}": value for name, value in cluster.client_properties().items()},
        "heartbeats.topic.replication.factor": "1",
        **more,
    }


def https_properties(folder: Path) -> dict[str, str]:
    root = party("root", None, ca=True)
    own = party("localhost", root, ca=False)
    (folder / "own.pem").write_text(own.key_pem() + own.pem)
    (folder / "root.pem").write_text(root.pem)
    return {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(folder / "own.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(folder / "root.pem"),
        "listeners.https.ssl.client.auth": "required",
        "rest.advertised.listener": "https",
        "rest.advertised.host.name": "localhost",
        "inter.worker.signature.algorithm": "HmacSHA512",
        "inter.worker.verification.algorithms": "HmacSHA256,HmacSHA512",
        "inter.worker.key.ttl.ms": "5000",
        "session.timeout.ms": str(int(SESSION_S * 1000)),
        "heartbeat.interval.ms": "500",
    }


@pytest.fixture(scope="module")
def workers(target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Product]]:
    common = https_properties(tmp_path_factory.mktemp("stores"))
    with contextlib.ExitStack() as stack:
        made = []
        for _ in NAMES:
            worker = Product(target_cluster, group="any-worker", properties=common)
            worker.properties["listeners"] = f"http://127.0.0.1:{worker.port},https://127.0.0.1:{free_port()}"
            stack.callback(worker.close)
            made.append(worker.launch())
        for worker in made:
            worker.wait_answers()
        yield made


def asked(worker: Product, method: str, path: str, body: object = None) -> httpx.Response:
    """As a console that repeats nothing but a 409 of a rebalance: the group may just have changed."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = worker.rest.request(method, path, json=body) if body else worker.rest.request(method, path)
        if answer.status_code != httpx.codes.CONFLICT or time.monotonic() > until:
            return answer
        time.sleep(0.2)


def test_each_worker_takes_what_consoles_ask(workers: list[Product], target_cluster: LocalCluster) -> None:
    for name, worker in zip(NAMES, workers, strict=True):
        answer = asked(worker, "POST", "/connectors", {"name": name, "config": heartbeat(target_cluster)})
        assert answer.status_code == 201, answer.text
        assert answer.headers["location"] == f"http://127.0.0.1:{worker.port}/connectors/{name}"
    for name in NAMES:
        workers[0].wait_running(name)

    def ran_by() -> set[str]:
        return {workers[0].status(name)["connector"]["worker_id"] for name in NAMES}

    wait_for_state(lambda: len(ran_by()) == len(NAMES), "each worker runs its share")
    for number, worker in enumerate(workers):
        # One of two at least runs at another worker.
        for name in (NAMES[number], NAMES[number - 1]):
            # What Kafka-UI sends.
            for method, path, status in (
                ("GET", "?expand=info&expand=status", 200),
                ("GET", f"/{name}/tasks/0/status", 200),
                ("PUT", f"/{name}/pause", 202),
                ("PUT", f"/{name}/resume", 202),
                ("POST", f"/{name}/restart?includeTasks=false&onlyFailed=false", 204),
                ("POST", f"/{name}/tasks/0/restart", 204),
            ):
                if path.endswith("/tasks/0/restart"):
                    worker.wait_running(name)
                answer = asked(worker, method, f"/connectors{path}")
                assert answer.status_code == status, (
                    f"{method} {path} of {worker.port}: {answer.status_code} {answer.text}"
                )
            answer = asked(
                worker, "PUT", f"/connectors/{name}/config", heartbeat(target_cluster, note=str(worker.port))
            )
            assert (answer.status_code, answer.json()["config"]["note"]) == (200, str(worker.port))
    for name in NAMES:
        workers[0].wait_running(name)
    # Errors of another worker, in its words.
    body = {"name": "one", "config": heartbeat(target_cluster)}
    for worker in workers:
        wait_for_state(
            # Not that of a rebalance.
            lambda worker=worker: worker.rest.post("/connectors", json=body).json()["message"] == EXISTS,
            EXISTS,
        )
        assert worker.rest.post("/connectors", json=body).status_code == 409
        assert asked(worker, "DELETE", "/connectors/none").status_code == 404


# test_sharing.py kills a leader, too, while all workers get requests.
@pytest.mark.soak
def test_a_leader_that_dies_costs_no_change(workers: list[Product], target_cluster: LocalCluster) -> None:
    leader = next(each for each in workers if is_leader(each))
    others = [each for each in workers if each is not leader]
    answers: list[tuple[float, int, str]] = []
    over = threading.Event()

    def hammer(worker: Product) -> None:
        number = 0
        while not over.is_set():
            number += 1
            began = time.monotonic()
            config = heartbeat(target_cluster, note=str(number))
            with httpx.Client(base_url=str(worker.rest.base_url), timeout=60) as client:
                answer = client.put("/connectors/one/config", json=config)
            answers.append((time.monotonic() - began, answer.status_code, answer.text))
            time.sleep(0.1)

    threads = [threading.Thread(target=hammer, args=(each,)) for each in others]
    for each in threads:
        each.start()
    try:
        time.sleep(1)
        leader.kill()
        killed = time.monotonic()
        wait_for_state(lambda: any(is_leader(each) for each in others), "another worker leads")
        took = time.monotonic() - killed
        time.sleep(3)
    finally:
        over.set()
        for each in threads:
            each.join()
    refused = Counter(status for _, status, _ in answers if status not in (200, 201))
    # One request may have been with the leader when it died; all others wait for the next one.
    assert sum(refused.values()) <= len(others), [each for each in answers if each[1] not in (200, 201)]
    assert max(seconds for seconds, _, _ in answers) < SESSION_S + 10
    print(f"another worker led after {took:.1f} s; {len(answers)} changes, refused: {dict(refused)}")
    for name in NAMES:
        others[0].wait_running(name)
    leader.start()


def is_leader(worker: Product) -> bool:
    """By its own word."""
    with contextlib.suppress(httpx.HTTPError):
        for link in worker.rest.get("/admin/links").json()["links"]:
            return bool(link["leads"])
    return False


def test_a_worker_of_another_group_on_the_same_topics_is_refused(workers: list[Product]) -> None:
    workers[0].wait_running("one")
    properties = {**workers[0].properties, "group.id": "any-worker-2", "session.timeout.ms": "6000"}
    del properties["rest.advertised.listener"]
    other = Product(workers[0].cluster, group="any-worker-2", properties=properties)
    other.properties["listeners"] = f"http://127.0.0.1:{other.port}"
    with contextlib.closing(other):
        other.launch()
        assert other.wait_ended() == 4, other.log_tail()
        line = other.log_text()
        assert re.search(
            r"Worker \S+ of group\.id any-worker runs connector (one|two|three) of this worker's topics", line
        )
        # Nothing of it has run.
        assert other.log_text().count("RUNNING") == 0
    for name in NAMES:
        workers[0].wait_running(name)


def test_a_worker_of_the_group_with_other_topics_is_refused(workers: list[Product]) -> None:
    """As the leader it would take everything from the others."""
    workers[0].wait_running("one")
    properties = {**workers[0].properties, "config.storage.topic": "other-configs"}
    del properties["rest.advertised.listener"]
    other = Product(workers[0].cluster, group="any-worker", properties=properties)
    other.properties["listeners"] = f"http://127.0.0.1:{other.port}"
    with contextlib.closing(other):
        other.launch()
        assert other.wait_ended() == 4, other.log_tail()
        assert re.search(
            r"Worker \S+ of group\.id any-worker has the storage topics any-worker-configs, ", other.log_text()
        )
    workers[0].wait_running("one")


def test_a_java_worker_of_another_group_on_the_same_topics_is_seen(target_cluster: LocalCluster) -> None:
    group = "shared-by-java"
    with ConnectWorker(target_cluster, {"heartbeat.interval.ms": "500"}, group=group, heap="512m") as java:
        config = heartbeat(target_cluster) | {"connector.class": f"org.apache.kafka.connect.mirror.{HEARTBEAT}"}
        assert java.request("PUT", "/connectors/one/config", config)[0] == 201
        java.wait_running("one")
        other = Product(target_cluster, group=group, properties={"group.id": "ours", "session.timeout.ms": "6000"})
        with contextlib.closing(other):
            other.launch()
            assert other.wait_ended() == 4, other.log_tail()
            assert "group.id shared-by-java runs connector one" in other.log_text()
            java.stop()
            # A group that was renamed: nobody runs the topics' connectors any more, though their statuses name its worker.
            other.start().wait_running("one")
