"""A page of another site changes nothing through the browser of somebody who may; other programs are not asked."""

from __future__ import annotations

import httpx
import pytest

from mirror_connect.app.config.cross_origins import CrossOrigins
from mirror_connect.app.rest.application import Surface, create_admin_application
from tests.fakes.connect_worker import FakeWorker, served, serving, source_config

RESTART = "/connectors/a/restart"
OPEN = CrossOrigins.of("https://ui.example.org", "")


async def restarted(headers: dict[str, str], allowed: CrossOrigins | None = None) -> httpx.Response:
    """The answer to a restart, the one change that a browser lets any page send."""
    async with FakeWorker().running() as worker:
        await worker.herder.configs.create("a", source_config(), None)
        await worker.state("a", "RUNNING")
        async with serving(worker.herder, (), Surface(cross_origins=allowed)) as client:
            host = client.base_url.netloc.decode()
            return await client.post(
                RESTART, headers={name: text.replace("HOST", host) for name, text in headers.items()}
            )


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="curl_or_kafka_ui"),
        pytest.param({"Origin": "http://HOST"}, id="its_own_page"),
        pytest.param({"Origin": "http://HOST", "Sec-Fetch-Site": "same-origin"}, id="its_own_page_as_the_browser_says"),
        pytest.param({"Origin": "https://proxy", "Sec-Fetch-Site": "same-origin"}, id="its_own_page_behind_a_proxy"),
        pytest.param({"Sec-Fetch-Site": "none"}, id="typed_by_the_user"),
    ],
)
async def test_own_pages_and_other_programs_change_things(headers: dict[str, str]) -> None:
    assert (await restarted(headers)).status_code == 204


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": "https://evil.example.org"}, id="another_origin"),
        pytest.param({"Origin": "https://evil.example.org", "Sec-Fetch-Site": "cross-site"}, id="as_the_browser_says"),
        pytest.param({"Origin": "http://HOST", "Sec-Fetch-Site": "same-site"}, id="another_port_of_the_same_site"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="without_its_origin"),
        pytest.param({"Origin": "null"}, id="a_sandbox"),
        pytest.param({"Origin": "http://["}, id="no_address"),
    ],
)
async def test_pages_of_others_change_nothing(headers: dict[str, str]) -> None:
    answer = await restarted(headers)
    assert (answer.status_code, answer.json()["error_code"]) == (403, 403)


async def test_pages_that_the_settings_name_change_things() -> None:
    allowed = {"Origin": "https://ui.example.org", "Sec-Fetch-Site": "cross-site"}
    assert (await restarted(allowed, OPEN)).status_code == 204
    assert (await restarted({**allowed, "Origin": "https://evil.example.org"}, OPEN)).status_code == 403


async def test_reading_is_answered_to_all_pages() -> None:
    # The browser hides the answer from them.
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        answer = await client.get("/connectors", headers={"Origin": "https://evil.example.org"})
        assert answer.status_code == 200


async def test_log_levels_on_a_listener_of_their_own_are_kept_too() -> None:
    async with FakeWorker().running() as worker, served(create_admin_application(worker.herder)) as client:
        told = {"Origin": "https://evil.example.org"}
        answer = await client.put("/admin/loggers/a", json={"level": "DEBUG"}, headers=told)
        assert answer.status_code == 403
