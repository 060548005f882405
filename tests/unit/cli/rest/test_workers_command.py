"""`workers`: what runs where in a group."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.links_worker import NOW_MS, LinksWorker
from tests.unit.cli.rest.conftest import Mirror, Served


def worker(name: str, tasks: list[tuple[str, int]], **more: Any) -> dict[str, Any]:
    return {
        "worker_id": name,
        "url": f"http://{name}/",
        "leads": False,
        "connectors": [],
        "tasks": [{"connector": connector, "task": task} for connector, task in tasks],
        "spark": "READY",
        "version": "0.1.0",
        "lease_ms": 7_300,
        "told_ms": NOW_MS,
        **more,
    }


def group(*workers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "answering": "a:8083",
        "leader_url": "http://a:8083/",
        "generation": 7,
        "workers": list(workers),
        "lost": [],
        "delay_ms": None,
        **more,
    }


def test_each_worker_with_what_it_runs(linked: LinksWorker, mirror: Mirror) -> None:
    linked.workers = group(
        worker("a:8083", [("src", 3), ("src", 0), ("src", 1), ("src", 2), ("src", 7)], leads=True, connectors=["hb"]),
        worker("b:8083", [], spark=None, version=None, lease_ms=None, told_ms=None),
    )
    done = mirror("workers", "--worker", linked.url)
    assert (done.code, done.err) == (0, "")
    assert done.texts == ["a:8083 leads 1 5 hb, src/0-3/7 ready 7.3 s 0.1.0", "b:8083 0 0 - unknown unknown unknown"]


def test_where_tasks_run_on_a_spark_cluster_is_in_the_wide_table(linked: LinksWorker, mirror: Mirror) -> None:
    there = worker("a:8083", [("src", 0), ("src", 1), ("hb", 0), ("src", 2)])
    for task, executor in zip(there["tasks"], ("3", "3", "3", "4"), strict=True):
        task.update(executor=executor, host=f"host{executor}")
    linked.workers = group(there)
    done = mirror("workers", "-o", "wide", "--worker", linked.url)
    assert "3 on host3: hb/0, src/0-1; 4 on host4: src/2" in done.texts[0]


def test_a_lost_worker_and_the_delay_are_told(linked: LinksWorker, mirror: Mirror) -> None:
    lost = {"worker_id": "c:8083", "connectors": [], "lost_ago_ms": 12_000}
    lost["tasks"] = [{"connector": "src", "task": number} for number in (1, 2)]
    linked.workers = group(worker("a:8083", [], leads=True), lost=[lost], delay_ms=90_000)
    done = mirror("workers", "--worker", linked.url)
    assert "c:8083 left the group or was lost 12 s ago with tasks of src (2)" in done.out
    assert "waits for it for" in done.out


def test_a_worker_that_is_back_is_not_told_as_lost(linked: LinksWorker, mirror: Mirror) -> None:
    lost = {"worker_id": "c:8083", "connectors": ["src"], "tasks": [], "lost_ago_ms": 12_000}
    linked.workers = group(worker("a:8083", [], leads=True), worker("c:8083", []), lost=[lost])
    assert "lost" not in mirror("workers", "--worker", linked.url).out


def test_without_a_leader_the_code_is_1(linked: LinksWorker, mirror: Mirror) -> None:
    linked.workers = group(worker("a:8083", []), leader_url=None, generation=None)
    done = mirror("workers", "--worker", linked.url)
    assert (done.code, "No worker leads the group now." in done.out) == (1, True)


def test_json_is_the_body_of_rest(linked: LinksWorker, mirror: Mirror) -> None:
    linked.workers = group(worker("a:8083", [("src", 0)], leads=True))
    assert json.loads(mirror("workers", "-o", "json", "--worker", linked.url).out) == linked.workers


def test_a_worker_of_kafkas_own_has_none(linked: LinksWorker, mirror: Mirror) -> None:
    done = mirror("workers", "--worker", linked.url)
    assert (done.code, "has no /admin/workers" in done.err) == (2, True)


def test_a_worker_alone_runs_everything(served: Served, mirror: Mirror) -> None:
    served.put("src", tasks__max="2")
    served.run(served.worker.state("src", "RUNNING", ["RUNNING", "RUNNING"]))
    done = mirror("workers", "--worker", served.url)
    assert (done.code, done.texts[0].startswith("worker-1:8083 leads 1 2 src/0-1 ready 8.0 s")) == (0, True), done.out
