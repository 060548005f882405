"""/ui and /docs: pages that load nothing from elsewhere, and that nobody reads without the login that REST wants."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, serving
from tests.paths import ROOT

LOGIN: Final = httpx.BasicAuth("admin", "s3cret")
STATIC: Final = ROOT / "mirror_connect" / "app" / "rest" / "static"
FILES: Final = sorted(
    f"/{folder}/{path.name}"
    for folder, page in (("ui", "ui"), ("docs", "docs"), ("docs", "swagger-ui"))
    for path in (STATIC / page).iterdir()
    if path.suffix in (".js", ".css", ".svg")
)
# As published in swagger-ui-dist 5.35.0: a changed byte is a changed program into which people type credentials.
PUBLISHED: Final = {
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
    "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with FakeWorker().running() as worker, serving(worker.herder) as connected:
        yield connected


@pytest.mark.parametrize("path", ["/ui", "/docs"])
async def test_a_page_is_html_that_runs_and_shows_only_its_own_files(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"https?://|<style|style=|<script(?![^>]*\ssrc=)|\son\w+=", answer.text)


async def test_all_that_a_page_names_is_served(client: httpx.AsyncClient) -> None:
    for path in ("/ui", "/docs"):
        named = re.findall(r'(?:src|href)="([\w-]+/[\w.-]+)"', (await client.get(path)).text)
        assert named
        assert set(named) <= {file.removeprefix("/") for file in FILES}


async def test_every_file_is_served_with_its_type_and_not_again_to_who_has_it(client: httpx.AsyncClient) -> None:
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for path in FILES:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, types[Path(path).suffix])
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = await client.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/ui", "/ui/main.js", "/docs", "/docs/swagger-ui.css", "/openapi.json"])
async def test_all_need_credentials_and_let_a_browser_ask_for_them(path: str) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as client:
        refused, right = await client.get(path), await client.get(path, auth=LOGIN)
    assert (refused.status_code, right.status_code) == (401, 200)
    assert refused.headers["www-authenticate"].startswith("Basic ")
    assert refused.headers["cache-control"] == "no-store"
    assert refused.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in refused.headers["content-security-policy"]


@pytest.mark.parametrize("page", ["ui", "docs"])
async def test_a_slash_behind_it_leads_to_the_page_also_behind_a_prefix(client: httpx.AsyncClient, page: str) -> None:
    answer = await client.get(f"/{page}/")
    assert (answer.status_code, answer.headers["location"]) == (308, f"../{page}")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("surface", "served"),
    [
        pytest.param(Surface(ui=False), {"/docs": 200, "/ui": 404, "/ui/main.js": 404}, id="no_page"),
        pytest.param(Surface(docs=False), {"/docs": 404, "/openapi.json": 404, "/ui": 200}, id="no_contract"),
    ],
)
async def test_each_can_be_switched_off(surface: Surface, served: dict[str, int]) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, (), surface) as client:
        assert {path: (await client.get(path)).status_code for path in served} == served


@pytest.mark.parametrize(
    "path", ["/ui/index.html", "/ui/..%2Fpages.py", "/ui/pages.py", "/docs/LICENSE", "/ui/nothing.js"]
)
async def test_nothing_else_is_a_file_of_a_page(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code in (400, 404)


def test_swagger_ui_is_as_published_and_has_its_licence() -> None:
    folder = STATIC / "swagger-ui"
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()} == PUBLISHED


def test_the_page_asks_no_validator_elsewhere() -> None:
    assert "validatorUrl: null" in (STATIC / "docs" / "start.js").read_text()


def test_the_page_lets_no_browser_keep_an_answer() -> None:
    # A config may have passwords, and Connect's answers don't say how long they may be kept.
    asked = (STATIC / "ui" / "rest.js").read_text()
    assert re.findall(r'cache: "([\w-]+)"', asked) == ["no-store"]
    others = [path.name for path in (STATIC / "ui").glob("*.js") if "fetch(" in path.read_text()]
    assert others == ["rest.js"]
