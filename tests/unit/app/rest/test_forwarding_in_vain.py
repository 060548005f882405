"""What a worker says when the leader is away, hangs, answers what no Connect worker answers, or is not to be trusted."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path

import pytest

from mirror_connect.app.config.listener_tls import client_context, listener_context
from mirror_connect.app.rest import forwarding
from tests.fakes.connect_worker import eventually, source_config
from tests.fakes.forwarding_group import Group, Recorded, answer_of, created, group_of_two, stores

# A leader that is away, or hangs.


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
    async with group_of_two(patience_s=1.0) as group, hanging.at() as url:
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


# Answers that are not of a Connect worker, and URLs that lead elsewhere.


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


# HTTPS.


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
