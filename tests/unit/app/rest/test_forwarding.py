"""A worker that does not lead passes requests on to the leader, as Connect does; what comes back, and what must not pass."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from mirror_connect.app.config.listener_tls import client_context, listener_context
from mirror_connect.app.errors import Forbidden
from mirror_connect.app.herder import restarts
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.rest import forwarding
from mirror_connect.app.rest.application import Surface, create_application
from mirror_connect.app.rest.basic_auth import Authenticator, UsersFile
from mirror_connect.app.rest_client import RestClient
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.certificates import party
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, served, source_config

NO_TLS: Callable[[], ssl.SSLContext] = ssl.create_default_context


@dataclass
class Place:
    """A port that is open before the worker that answers there."""

    scheme: str = "http"
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.listener.getsockname()[1]}"


@dataclass
class Group:
    leader: FakeWorker
    follower: FakeWorker
    at_leader: httpx.AsyncClient
    at_follower: httpx.AsyncClient


def worker_at(place: Place, leader: FakeWorker | None, leader_url: str, client: RestClient) -> FakeWorker:
    membership = FakeMembership(is_leader=leader is None, leader_url=leader_url)
    topics = (None, None) if leader is None else (leader.config_topic, leader.status_topic)
    return FakeWorker(*topics, membership=membership, link=WorkersLink(place.url, client=client))


@contextlib.asynccontextmanager
async def group_of_two(
    *,
    users: Sequence[Authenticator] = (),
    leaders_users: Sequence[Authenticator] | None = None,
    leaders_surface: Surface | None = None,
    followers_surface: Surface | None = None,
    scheme: str = "http",
    leaders_tls: ssl.SSLContext | None = None,
    followers_tls: Callable[[], ssl.SSLContext] = NO_TLS,
    patience_s: float = 10.0,
    limit: int = 1 << 16,
) -> AsyncIterator[Group]:
    places = Place(scheme), Place()
    leader = worker_at(places[0], None, places[0].url, RestClient(NO_TLS))
    follower = worker_at(places[1], leader, places[0].url, RestClient(followers_tls, patience_s, limit))
    leading = create_application(
        leader.herder, users if leaders_users is None else leaders_users, leaders_surface or Surface()
    )
    following = create_application(follower.herder, users, followers_surface or Surface())
    async with (
        leader.running(),
        follower.running(),
        served(leading, places[0].listener, leaders_tls) as at_leader,
        served(following, places[1].listener) as at_follower,
    ):
        # Without the host and port as the client's default: Location is about them.
        await eventually(lambda: follower.configs.snapshot().session_key is not None)
        yield Group(leader, follower, at_leader, at_follower)


@pytest.fixture
async def group() -> AsyncIterator[Group]:
    async with group_of_two() as made:
        yield made


async def created(group: Group, name: str = "a") -> None:
    answer = await group.at_follower.post("/connectors", json={"name": name, "config": source_config()})
    assert answer.status_code == 201, answer.text
    await group.leader.state(name, "RUNNING", ["RUNNING"])
    await group.follower.state(name, "RUNNING", ["RUNNING"])


# --- what works -----------------------------------------------------------------------------------------------------


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


# --- hops -----------------------------------------------------------------------------------------------------------


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


class Recorded:
    """A server that says what it is told to, and keeps what it heard."""

    def __init__(self, *said: bytes) -> None:
        self.heard: list[bytes] = []
        self.said = said
        self.closed = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def at(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*self._answering)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"Content-Length: (\d+)", head)
        self.heard.append(head + await reader.readexactly(int(found[1]) if found else 0))
        with contextlib.suppress(ConnectionError):
            for piece in self.said:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            await reader.read()
        self.closed.set()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def answer_of(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


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


# --- what another worker than the leader runs -------------------------------------------------------------------------


@dataclass
class Three:
    """The leader runs nothing, `owner` runs connector a with its tasks, `follower` nothing either."""

    leader: FakeWorker
    owner: FakeWorker
    follower: FakeWorker
    at_leader: httpx.AsyncClient
    at_owner: httpx.AsyncClient
    at_follower: httpx.AsyncClient


@contextlib.asynccontextmanager
async def group_of_three() -> AsyncIterator[Three]:
    places = [Place() for _ in range(3)]
    first: FakeWorker | None = None
    workers: list[FakeWorker] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for number, place in enumerate(places):
            worker = FakeWorker(
                first.config_topic if first else None,
                first.status_topic if first else None,
                membership=FakeMembership(is_leader=number == 0, leader_url=places[0].url),
                worker_id=f"w{number}:1",
                link=WorkersLink(place.url, client=RestClient(NO_TLS)),
            )
            first = first or worker
            workers.append(await stack.enter_async_context(worker.running()))
            clients.append(await stack.enter_async_context(served(create_application(worker.herder), place.listener)))
        await eventually(lambda: workers[0].herder.leadership.term is not None)
        assert (await clients[2].put("/connectors/a/config", json=source_config(tasks__max="2"))).status_code == 201
        tasks = frozenset({TaskId("a", 0), TaskId("a", 1)})
        members = tuple(
            GroupMember(place.url, f"w{number}:1", *((frozenset({"a"}), tasks) if number == 1 else ()))
            for number, place in enumerate(places)
        )
        for number, worker in enumerate(workers):
            member = members[number]
            worker.membership.assigned = GroupAssignment(
                7, number == 0, places[0].url, member.connectors, member.tasks, members
            )
            worker.herder.membership_changed()
        await workers[0].state("a", "RUNNING", ["RUNNING", "RUNNING"])
        yield Three(*workers, *clients)


async def test_task_configs_of_a_connector_elsewhere_reach_the_config_topic() -> None:
    async with group_of_three() as three:
        # Who runs it has made them; who leads has written them.
        assert three.owner.connectors.running.keys() == {"a"}
        assert three.leader.connectors.running.keys() == set()
        assert three.leader.configs.snapshot().task_count("a") == 2
        assert {status.worker_id for status in three.leader.statuses.tasks("a").values()} == {"w1:1"}


async def test_a_restart_reaches_whoever_runs_it_in_two_hops() -> None:
    async with group_of_three() as three:
        for number, client in enumerate((three.at_follower, three.at_leader, three.at_owner), 1):
            before = three.owner.connectors.log.count("start a")
            assert (await client.post("/connectors/a/restart")).status_code == 204
            assert three.owner.connectors.log.count("start a") == before + 1
            assert (await client.post("/connectors/a/tasks/1/restart")).status_code == 204
            assert three.owner.supervisor.restarted == [TaskId("a", 1)] * number
        assert three.leader.supervisor.restarted == three.follower.supervisor.restarted == []


async def test_a_restart_that_fails_elsewhere_is_told_here() -> None:
    async with group_of_three() as three:
        three.owner.connectors.failing["a"] = "ConfigError: no"
        answer = await three.at_follower.post("/connectors/a/restart")
    assert (answer.status_code, answer.json()["message"]) == (500, "Failed to start connector: a")


async def test_a_restart_of_what_nobody_has_is_found_unknown_at_each_worker() -> None:
    async with group_of_three() as three:
        for client in (three.at_follower, three.at_leader, three.at_owner):
            answers = [
                await client.post("/connectors/none/restart"),
                await client.post("/connectors/a/tasks/9/restart"),
            ]
            assert [each.json()["message"] for each in answers] == ["Unknown connector: none", "Unknown task: a-9"]


async def test_a_restart_of_what_moves_waits_for_its_next_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "ASSIGNED_WAIT_S", 0.3)
    async with group_of_three() as three:
        whole = three.leader.membership.assigned
        assert whole is not None
        three.leader.membership.assigned = replace(whole, workers=())
        answer = await three.at_follower.post("/connectors/a/restart")
        assert (answer.status_code, "momentarily" in answer.json()["message"]) == (409, True)
        monkeypatch.setattr(restarts, "ASSIGNED_WAIT_S", 20)
        asked = asyncio.create_task(three.at_follower.post("/connectors/a/restart"))
        await asyncio.sleep(0.2)
        three.leader.membership.assigned = whole
        assert (await asked).status_code == 204


async def test_the_former_worker_of_a_connector_writes_no_task_configs() -> None:
    async with group_of_three() as three:
        with pytest.raises(Forbidden, match="w1:1 runs it now"):
            await three.follower.herder.worker_client.put_task_configs("a", [])
        await three.owner.herder.worker_client.put_task_configs("a", [{"x": "1"}])


# --- a leader that is away, or hangs ----------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


async def test_a_leader_that_is_away_is_named(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "NEXT_LEADER_S", 0.1)
    url = group.follower.membership.leader_url = f"http://127.0.0.1:{closed_port()}"
    answer = await group.at_follower.put("/connectors/a/pause")
    assert answer.status_code == 500
    assert re.fullmatch(
        rf"IO Error trying to forward REST request: the worker at {url} can't be reached: .*refused.*",
        answer.json()["message"],
        re.IGNORECASE,
    )


async def test_a_request_waits_for_the_leader_after_a_dead_one(group: Group) -> None:
    await created(group)
    real = group.leader.link.url
    group.follower.membership.leader_url = f"http://127.0.0.1:{closed_port()}"
    asked = asyncio.create_task(group.at_follower.put("/connectors/a/pause"))
    await asyncio.sleep(0.2)
    assert not asked.done()
    group.follower.membership.leader_url = real
    assert (await asked).status_code == 202
    assert group.leader.configs.snapshot().target_state("a") == "PAUSED"


async def test_a_follower_that_leads_meanwhile_carries_it_out(group: Group) -> None:
    await created(group)
    group.follower.membership.leader_url = f"http://127.0.0.1:{closed_port()}"
    asked = asyncio.create_task(group.at_follower.put("/connectors/a/pause"))
    await asyncio.sleep(0.2)
    group.leader.membership.is_leader, group.follower.membership.is_leader = False, True
    group.follower.membership.leader_url = group.follower.link.url
    for each in (group.leader, group.follower):
        each.herder.membership_changed()
    assert (await asked).status_code == 202


async def test_a_leader_that_hangs_costs_a_limited_time_and_its_connection_is_closed() -> None:
    hanging = Recorded()
    async with group_of_two(patience_s=0.3) as group, hanging.at() as url:
        group.follower.membership.leader_url = url
        answer = await group.at_follower.put("/connectors/a/pause", timeout=20)
        async with asyncio.timeout(10):
            await hanging.closed.wait()
    assert answer.status_code == 500
    assert f"the worker at {url} did not answer within" in answer.json()["message"]
    assert "unknown whether" in answer.json()["message"]


async def test_a_leader_that_was_suspended_is_not_waited_for_when_another_one_leads(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "FORMER_LEADER_S", 0.1)
    hanging = Recorded()
    async with hanging.at() as url:
        group.follower.membership.leader_url = url
        asked = asyncio.create_task(group.at_follower.put("/connectors/a/pause"))
        await eventually(lambda: len(hanging.heard) == 1)
        group.follower.membership.leader_url = group.leader.link.url
        answer = await asked
        await hanging.closed.wait()
    assert (answer.status_code, "leads no more" in answer.json()["message"]) == (500, True)


# --- answers that are not of a Connect worker, and URLs that lead elsewhere --------------------------------------------


SECRET = b'{"AccessKeyId":"of-the-cloud"}'


OTHER_ANSWERS = {
    "a_redirect": answer_of("302 Found", b"", "Location: http://127.0.0.1:1/"),
    "a_text": answer_of("200 OK", b"of-the-cloud", "Content-Type: text/plain"),
    "an_array": answer_of("200 OK", b'["of-the-cloud"]', "Content-Type: application/json"),
    "another_error": answer_of("403 Forbidden", SECRET, "Content-Type: application/json"),
    "a_page": answer_of("500 Oops", b"<html>of-the-cloud</html>"),
    "another_protocol": b"SSH-2.0-of-the-cloud\r\n",
    "a_head_without_end": b"HTTP/1.1 200 OK\r\nX: " + b"of-the-cloud" * 9_000 + b"\r\n\r\n",
    "nothing": b"",
}


async def test_no_other_answer_is_passed_on() -> None:
    async with group_of_two(patience_s=1.0) as group:
        for what, said in OTHER_ANSWERS.items():
            other = Recorded(said)
            async with other.at() as url:
                group.follower.membership.leader_url = url
                answer = await group.at_follower.put("/connectors/a/pause", timeout=20)
            assert (answer.status_code, answer.json()["error_code"]) in ((500, 500), (403, 403)), what
            assert "of-the-cloud" not in answer.text, what
            assert "location" not in answer.headers, what


async def test_an_answer_without_end_is_given_up(group: Group) -> None:
    other = Recorded(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", *[b"x" * 9_000] * 20)
    async with other.at() as url:
        group.follower.membership.leader_url = url
        answer = await group.at_follower.put("/connectors/a/pause", timeout=30)
        await other.closed.wait()
    assert (answer.status_code, "more than 65536 bytes" in answer.text) == (500, True)


NO_WORKERS = [
    "file:///etc/passwd",
    "ftp://127.0.0.1:21",
    "http://user:secret@127.0.0.1:8083",
    "http://127.0.0.1:8083/?x=",
    "http://127.0.0.1:8083/#",
    "http://127.0.0.1:8083\r\nX: y",
    "http://127.0.0.1",
    "http://127.0.0.1:0",
    "http://127.0.0.1:99999",
    "host/A->B/random",
    "",
]


async def test_a_url_that_is_no_workers_is_not_asked_and_not_shown(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "NEXT_LEADER_S", 0.01)
    for url in NO_WORKERS:
        group.follower.membership.leader_url = url
        answer = await group.at_follower.put("/connectors/a/pause")
        assert answer.status_code == 500, url
        assert "secret" not in answer.text, url
        assert "\r" not in answer.json()["message"], url


async def test_a_location_leads_to_this_worker_or_nowhere(group: Group) -> None:
    places = ["http://evil:1/", "//evil", "/connectors/a\tb", "javascript:x", "http://evil:1/connectors/a?x#y"]
    for number, place in enumerate(places):
        other = Recorded(answer_of("201 Created", b"{}", f"Location: {place}"))
        async with other.at() as url:
            group.follower.membership.leader_url = url
            answer = await group.at_follower.put(f"/connectors/{number}/config", json=source_config())
        here = f"{answer.url.scheme}://{answer.url.netloc.decode()}/connectors/a"
        assert answer.headers.get("location", here).startswith(here), place


# --- credentials, read-only workers, foreign pages ----------------------------------------------------------------------


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


# --- https ----------------------------------------------------------------------------------------------------------


def stores(folder: Path, *, trusts: bool = True, client_auth: str = "none") -> dict[str, str]:
    root = party("root", None, ca=True)
    server = party("localhost", root, ca=False)
    (folder / "own.pem").write_text(server.key_pem() + server.pem)
    (folder / "root.pem").write_text(root.pem if trusts else party("other", None, ca=True).pem)
    return {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(folder / "own.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(folder / "root.pem"),
        "listeners.https.ssl.client.auth": client_auth,
        "listeners.https.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize("client_auth", ["none", "required"])
async def test_a_leader_is_asked_over_https(tmp_path: Path, client_auth: str) -> None:
    settings = stores(tmp_path, client_auth=client_auth)
    async with group_of_two(
        scheme="https",
        leaders_tls=listener_context(settings, "listeners.https."),
        followers_tls=lambda: client_context(settings),
    ) as group:
        answer = await group.at_follower.post("/connectors", json={"name": "a", "config": source_config()})
    assert (answer.status_code, answer.headers["location"].startswith("http://")) == (201, True)


async def test_a_leader_whose_certificate_is_not_trusted_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "NEXT_LEADER_S", 0.1)
    settings = stores(tmp_path)
    (tmp_path / "b").mkdir()
    others = stores(tmp_path / "b", trusts=False)
    async with group_of_two(
        scheme="https",
        leaders_tls=listener_context(settings, "listeners.https."),
        followers_tls=lambda: client_context(others),
    ) as group:
        answer = await group.at_follower.put("/connectors/a/pause")
        url = group.leader.link.url
    message = answer.json()["message"]
    assert (answer.status_code, url in message, "truststore" in message) == (500, True, True)


async def test_many_requests_at_once_each_have_their_answer(group: Group) -> None:
    names = [f"c{number}" for number in range(40)]
    answers = await asyncio.gather(
        *(group.at_follower.put(f"/connectors/{name}/config", json=source_config()) for name in names)
    )
    assert {each.status_code for each in answers} == {201}
    assert [each.json()["name"] for each in answers] == names
    assert json.loads((await group.at_follower.get("/connectors")).text).sort() == names.sort()
