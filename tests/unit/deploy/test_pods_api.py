"""The stand-in for Kubernetes' API that Spark gets in tests: rights, schemas, selectors, patches and watches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.pods_api import Object, PodsApi, selects

PODS = "/api/v1/namespaces/kafka/pods"


@pytest.fixture
def api() -> Iterator[PodsApi]:
    verbs = ["create", "list", "get", "watch", "patch", "deletecollection"]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    with PodsApi("kafka", rules, lambda _, each: [] if "spec" in each else ["it has no spec"]) as started:
        yield started


def _ask(api: PodsApi, method: str, path: str, body: Any = None) -> tuple[int, Object]:
    answer = httpx.request(method, f"{api.url}{path}", json=body, timeout=20)
    return answer.status_code, answer.json()


def _pod(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def test_what_the_role_or_a_schema_does_not_allow_is_refused_and_written_down(api: PodsApi) -> None:
    assert _ask(api, "POST", PODS, {"metadata": {"name": "a"}})[0] == 422
    assert _ask(api, "POST", PODS, _pod("a"))[0] == 201
    assert _ask(api, "POST", PODS, _pod("a"))[0] == 409
    assert _ask(api, "DELETE", f"{PODS}/a")[0] == 403
    assert _ask(api, "GET", f"{PODS}/b")[0] == 404
    assert [status for status, _ in api.refused] == [422, 409, 403, 404]


def test_a_collection_is_deleted_by_its_labels(api: PodsApi) -> None:
    gone: list[str] = []
    api.deleted = lambda pod: gone.append(pod["metadata"]["name"])
    for name, role in (("a", "executor"), ("b", "executor"), ("c", "driver")):
        assert _ask(api, "POST", PODS, _pod(name, role=role))[0] == 201
    assert _ask(api, "DELETE", f"{PODS}?labelSelector=role%3Dexecutor")[0] == 200
    assert gone == ["a", "b"]
    assert [each["metadata"]["name"] for each in _ask(api, "GET", PODS)[1]["items"]] == ["c"]


def test_labels_are_patched_by_merging_and_by_operations(api: PodsApi) -> None:
    _ask(api, "POST", PODS, _pod("a", kept="yes"))
    _ask(api, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"more": "1"}}})
    _ask(api, "PATCH", f"{PODS}/a", [{"op": "add", "path": "/metadata/labels/of~1mine", "value": "2"}])
    assert _ask(api, "GET", f"{PODS}/a")[1]["metadata"]["labels"] == {"kept": "yes", "more": "1", "of/mine": "2"}


def test_a_watch_tells_what_came_after_its_version_and_is_chosen(api: PodsApi) -> None:
    _ask(api, "POST", PODS, _pod("before", role="executor"))
    version = _ask(api, "GET", PODS)[1]["metadata"]["resourceVersion"]
    query = f"?watch=true&resourceVersion={version}&labelSelector=role%3Dexecutor"
    with httpx.stream("GET", f"{api.url}{PODS}{query}", timeout=20) as answer:
        _ask(api, "POST", PODS, _pod("other"))
        _ask(api, "POST", PODS, _pod("mine", role="executor"))
        api.change("pods", "mine", {"status": {"phase": "Running"}})
        lines = (json.loads(line) for line in answer.iter_lines())
        events = (each for each in lines if each["type"] != "BOOKMARK")
        told = [next(events), next(events)]
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in told] == [
        ("ADDED", "mine"),
        ("MODIFIED", "mine"),
    ]


def test_a_watch_without_events_has_bookmarks(api: PodsApi) -> None:
    _ask(api, "POST", PODS, _pod("before"))
    version = _ask(api, "GET", PODS)[1]["metadata"]["resourceVersion"]
    query = f"?watch=true&resourceVersion={version}"
    with httpx.stream("GET", f"{api.url}{PODS}{query}", timeout=20) as answer:
        bookmark = json.loads(next(answer.iter_lines()))
    assert (bookmark["type"], bookmark["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": version})


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param("a=1", True, id="equal"),
        pytest.param("a=2", False, id="another_value"),
        pytest.param("a=1,b!=x", True, id="a_label_that_is_not_there_differs"),
        pytest.param("a!=1", False, id="unequal"),
        pytest.param("a in (1,2)", True, id="one_of"),
        pytest.param("a notin (1, 2)", False, id="none_of"),
        pytest.param("b", False, id="there"),
    ],
)
def test_selectors(selector: str, chosen: bool) -> None:
    assert selects({"labelSelector": selector}, _pod("x", a="1")) is chosen


def test_fields_are_selected_too() -> None:
    pod = _pod("x") | {"status": {"phase": "Pending"}}
    assert selects({"fieldSelector": "metadata.name=x,status.phase=Pending"}, pod)
    assert not selects({"fieldSelector": "status.phase=Running"}, pod)
