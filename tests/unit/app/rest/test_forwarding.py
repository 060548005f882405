"""A worker that does not lead passes requests on to the leader, as Connect does, with the credentials that came along."""

from __future__ import annotations

import asyncio
import base64
import json
import re

from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import eventually, source_config
from tests.fakes.forwarding_group import Group, Recorded, answer_of, created, group_of_two

# What works.


async def test_a_connector_is_created_at_a_follower(group: Group) -> None:
    answer = await group.at_follower.post(
        "/connectors", json={"name": "a", "config": {**source_config(), "my.number": 1.50}}
    )
    assert answer.status_code == 201
    assert answer.json() == {
        "name": "a",
        "config": {**source_config(), "my.number": "1.5", "name": "a"},
        "tasks": [],
        "type": "source",
    }
    assert answer.headers["location"] == f"{str(answer.url).rstrip('/')}/a"
    assert answer.headers["content-type"] == "application/json"
    assert group.leader.configs.snapshot().contains("a")


# In their order.
CHANGES: list[tuple[str, str, object, int]] = [
    ("PUT", "/connectors/a/config", source_config(x="1"), 200),
    ("PATCH", "/connectors/a/config", {"x": None, "y": "2"}, 200),
    ("PUT", "/connectors/a/pause", None, 202),
    ("PUT", "/connectors/a/resume", None, 202),
    ("POST", "/connectors/a/restart", None, 204),
    # As Kafka-UI sends it.
    ("POST", "/connectors/a/restart?includeTasks=false&onlyFailed=false", None, 204),
    ("POST", "/connectors/a/tasks/0/restart", None, 204),
    ("POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true", None, 202),
    ("PUT", "/connectors/a/topics/reset", None, 202),
    ("PUT", "/connectors/a/stop", None, 204),
    ("DELETE", "/connectors/a/offsets", None, 200),
    ("DELETE", "/connectors/a", None, 204),
    ("PUT", "/connectors/a/config", source_config(), 201),
]


async def test_a_change_has_the_same_answer_at_leader_and_follower(group: Group) -> None:
    # Two connectors, so that each change meets the same state.
    for name in ("a", "b"):
        await created(group, name)
    for method, path, body, status in CHANGES:
        answers = []
        for name, client in (("a", group.at_leader), ("b", group.at_follower)):
            if "offsets" in path:
                await group.leader.state(name, "STOPPED", [])
            own = path.replace("/a", f"/{name}", 1)
            answers.append(await (client.request(method, own, json=body) if body else client.request(method, own)))
        first, second = (
            re.sub(rb'"b"|/b|b-', lambda found: found[0].replace(b"b", b"a"), each.content) for each in answers
        )
        assert ([each.status_code for each in answers], second) == ([status, status], first), (method, path)
        if "resume" in path:
            for name in ("a", "b"):
                await group.leader.state(name, "RUNNING", ["RUNNING"])
        elif path == "/connectors/a":
            await eventually(lambda: group.leader.statuses.connectors() == frozenset())


async def test_offsets_are_altered_and_reset_at_a_follower(group: Group) -> None:
    await created(group)
    await group.at_follower.put("/connectors/a/stop")
    await group.leader.state("a", "STOPPED", [])
    partition = {"cluster": "A", "topic": "orders", "partition": 0}
    answer = await group.at_follower.patch(
        "/connectors/a/offsets", json={"offsets": [{"partition": partition, "offset": {"offset": 7}}]}
    )
    assert answer.json()["message"] == "The offsets for this connector have been altered successfully"
    answer = await group.at_follower.delete("/connectors/a/offsets")
    assert answer.json()["message"] == "The offsets for this connector have been reset successfully"


async def test_any_name_is_found_at_the_leader(group: Group) -> None:
    for name in ("a b", "a->b", "a+b&c=d?", "ä", "a;b", "a/b", "a%b", "..", "a#b"):
        await created(group, name)
        path = "".join(f"%{byte:02X}" for byte in name.encode())
        answer = await group.at_follower.put(f"/connectors/{path}/pause")
        assert (answer.status_code, group.leader.configs.snapshot().target_state(name)) == (202, "PAUSED"), name


async def test_errors_of_the_leader_come_back_as_they_are(group: Group) -> None:
    await created(group)
    answers = [
        await client.request(method, path, json=body)
        for method, path, body in (
            ("PUT", "/connectors/none/pause", None),
            ("POST", "/connectors", {"name": "a", "config": source_config()}),
            ("POST", "/connectors/a/tasks/7/restart", None),
            ("DELETE", "/connectors/a/offsets", None),
        )
        for client in (group.at_leader, group.at_follower)
    ]
    assert [each.status_code for each in answers] == [404, 404, 409, 409, 404, 404, 400, 400]
    for at_leader, at_follower in zip(answers[::2], answers[1::2], strict=True):
        assert at_leader.json() == at_follower.json()


async def test_a_follower_refuses_by_itself_what_makes_no_sense(group: Group) -> None:
    group.follower.membership.leader_url = "http://127.0.0.1:9"
    answers = [
        await group.at_follower.post("/connectors", content=b"{", headers={"Content-Type": "application/json"}),
        await group.at_follower.put("/connectors/a/config", json={"connector.class": "no.such"}),
    ]
    assert [each.status_code for each in answers] == [400, 400]


# Hops.


async def test_a_request_that_has_come_far_enough_is_a_conflict(group: Group) -> None:
    await created(group)
    for given, status in (("false", 409), ("no", 409), ("TRUE", 202), ("true", 202)):
        answer = await group.at_follower.put(f"/connectors/a/pause?forward={given}")
        assert answer.status_code == status
    answer = await group.at_follower.put("/connectors/a/pause?forward=false")
    assert answer.json()["message"] == (
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )


async def test_two_workers_that_take_each_other_for_the_leader_end_after_two_hops(group: Group) -> None:
    await created(group)
    group.leader.membership.is_leader = False
    group.leader.membership.leader_url = group.follower.link.url
    group.leader.herder.membership_changed()
    async with asyncio.timeout(20):
        answer = await group.at_follower.put("/connectors/a/pause")
    assert (answer.status_code, "conflicting operation" in answer.text) == (409, True)


async def test_what_is_passed_on_of_a_request(group: Group) -> None:
    other = Recorded(answer_of("204 No Content"))
    async with other.at() as url:
        group.follower.membership.leader_url = url
        await group.at_follower.request(
            "POST",
            "/connectors/a%20b/restart?onlyFailed=false&x=%0D%0AY:%201&onlyFailed=true",
            headers={"Authorization": "Basic eDp5", "Cookie": "c=1", "X-Other": "1", "Forwarded": "for=x"},
        )
    (heard,) = other.heard
    lines = heard.decode().split("\r\n")
    names = {line.partition(":")[0] for line in lines[1:] if line}
    assert lines[0] == "POST /connectors/a%20b/restart?onlyFailed=false&x=%0D%0AY%3A+1&forward=true HTTP/1.1"
    assert names == {
        *("Host", "Accept", "User-Agent", "Connection", "Authorization", "X-Mirror-Connect-Signature", "Content-Length")
    }
    assert "Authorization: Basic eDp5" in lines


async def test_the_second_hop_is_the_last(group: Group) -> None:
    other = Recorded(answer_of("204 No Content"))
    async with other.at() as url:
        group.follower.membership.leader_url = url
        await group.at_follower.put("/connectors/a/pause?forward=true")
    assert other.heard[0].startswith(b"PUT /connectors/a/pause?forward=false HTTP/1.1\r\n")


# Credentials, read-only workers, foreign pages.


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


async def test_credentials_are_asked_for_here_and_passed_on() -> None:
    async with group_of_two(users=[UsersFile({"admin": "s3cret"})]) as group:
        body = {"name": "a", "config": source_config()}
        answers = [
            await group.at_follower.post("/connectors", json=body, headers=headers)
            for headers in ({}, basic("admin", "wrong"), basic("admin", "s3cret"))
        ]
    assert [each.status_code for each in answers] == [401, 401, 201]


async def test_the_leader_asks_for_credentials_too() -> None:
    async with group_of_two(
        users=[UsersFile({"admin": "s3cret"})], leaders_users=[UsersFile({"admin": "another"})]
    ) as group:
        answer = await group.at_follower.put("/connectors/a/pause", headers=basic("admin", "s3cret"))
    assert (answer.status_code, answer.text) == (401, "User cannot access the resource.")


async def test_a_leader_that_only_reads_carries_out_what_others_take() -> None:
    async with group_of_two(leaders_surface=Surface(refuses_writes=True)) as group:
        await created(group)
        answers = [await client.put("/connectors/a/pause") for client in (group.at_leader, group.at_follower)]
    assert [each.status_code for each in answers] == [403, 202]


async def test_a_follower_that_only_reads_passes_nothing_on() -> None:
    async with group_of_two(followers_surface=Surface(refuses_writes=True)) as group:
        answer = await group.at_follower.post("/connectors", json={"name": "a", "config": source_config()})
        assert (answer.status_code, group.leader.configs.snapshot().contains("a")) == (403, False)


async def test_a_leader_that_only_reads_takes_no_forged_and_no_second_request() -> None:
    async with group_of_two(leaders_surface=Surface(refuses_writes=True)) as group:
        await created(group)
        recorded = Recorded(answer_of("204 No Content"))
        async with recorded.at() as url:
            group.follower.membership.leader_url = url
            await group.at_follower.put("/connectors/a/config", json=source_config(x="1"))
        head, _, body = recorded.heard[0].partition(b"\r\n\r\n")
        target = head.split(b" ")[1].decode()
        found = re.search(rb"X-Mirror-Connect-Signature: (\S+)", head)
        assert found is not None
        headers = {"X-Mirror-Connect-Signature": found[1].decode(), "Content-Type": "application/json"}
        before = group.leader.written()
        answers = [
            # It was signed for another receiver.
            await group.at_leader.put(target, content=body, headers=headers),
            await group.at_leader.put(target, content=body, headers={**headers, "X-Mirror-Connect-Signature": "v1;x"}),
        ]
        # A second time, at the right one.
        group.follower.membership.leader_url = group.leader.link.url
        signature = await group.follower.herder.worker_client._signature(
            group.leader.link.url, "PUT", b"/connectors/a/config", body
        )
        assert signature is not None
        headers["X-Mirror-Connect-Signature"] = signature
        answers += [
            await group.at_leader.put("/connectors/b/config", content=body, headers=headers),
            await group.at_leader.put("/connectors/a/config", content=body + b" ", headers=headers),
        ]
        assert [each.status_code for each in answers] == [403, 400, 403, 403]
        assert group.leader.written() == before
        # The failed try above has used it up.
        assert (await group.at_leader.put("/connectors/a/config", content=body, headers=headers)).status_code == 403
        assert group.leader.written() == before


async def test_a_foreign_page_has_nothing_passed_on(group: Group) -> None:
    await created(group)
    answer = await group.at_follower.post("/connectors/a/restart", headers={"Origin": "http://evil"})
    assert answer.status_code == 403


async def test_many_requests_at_once_each_have_their_answer(group: Group) -> None:
    names = [f"c{number}" for number in range(40)]
    answers = await asyncio.gather(
        *(group.at_follower.put(f"/connectors/{name}/config", json=source_config()) for name in names)
    )
    assert {each.status_code for each in answers} == {201}
    assert [each.json()["name"] for each in answers] == names
    assert json.loads((await group.at_follower.get("/connectors")).text).sort() == names.sort()
