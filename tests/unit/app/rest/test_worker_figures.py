"""POST /admin/workers/figures: told to workers of the group alone, wherever REST is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_connect.app.config.listener_tls import client_context, listener_context
from mirror_connect.app.errors import WorkerUnreachable
from mirror_connect.app.herder.figures_elsewhere import PATH
from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.forwarding_group import Group, created, group_of_two, stores

USERS = [UsersFile({"ada": "secret"})]


async def asked(group: Group, body: bytes = b'{"rows":["a"]}', limit: int = 1 << 20) -> tuple[int, list[bytes]]:
    url = group.follower.membership.leader_url
    assert url is not None
    status, answer = await group.follower.herder.worker_client.signed(
        "POST", url, PATH, body, patience_s=10.0, limit=limit
    )
    return status, answer.splitlines()


async def test_lines_of_json_from_the_worker_to_its_end() -> None:
    async with group_of_two() as group:
        await created(group)
        status, lines = await asked(group)
        head, end = json.loads(lines[0]), json.loads(lines[-1])
        assert (status, head["worker_id"], end) == (200, "worker-1:8083", {"end": True})


@pytest.mark.parametrize("surface", [Surface(), Surface(refuses_writes=True, admin=False)], ids=["login", "read_only"])
async def test_a_signature_stands_for_the_login_and_nothing_is_changed(surface: Surface) -> None:
    async with group_of_two(users=USERS, leaders_surface=surface) as group:
        assert (await asked(group))[0] == 200


async def test_over_https(tmp_path: Path) -> None:
    settings = stores(tmp_path)
    async with group_of_two(
        scheme="https",
        leaders_tls=listener_context(settings, "listeners.https."),
        followers_tls=lambda: client_context(settings),
    ) as group:
        assert (await asked(group))[0] == 200


async def test_nobody_else_is_told() -> None:
    async with group_of_two(users=USERS) as group:
        unsigned = await group.at_leader.post(PATH, json={"rows": []})
        login = await group.at_leader.post(PATH, json={"rows": []}, auth=("ada", "secret"))
        assert [unsigned.status_code, login.status_code] == [400, 400]
        assert "signature" in unsigned.json()["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"rows":1}'])
async def test_a_body_that_asks_for_nothing(body: bytes) -> None:
    async with group_of_two() as group:
        assert (await asked(group, body))[0] == 400


async def test_an_answer_that_is_too_large_is_given_up() -> None:
    async with group_of_two() as group:
        with pytest.raises(WorkerUnreachable):
            await asked(group, limit=10)
