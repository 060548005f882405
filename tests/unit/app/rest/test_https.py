"""TLS of a listener: keys and stores, certificates of clients, versions and cipher suites."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mirror_connect.app.config.listener_tls import listener_context
from tests.fakes.certificates import Party, party
from tests.fakes.http_listener import GREETING, PATIENCE_S, asked, serving, told

PASSWORD = "hunter22"


def trusting(root: Party, shown: Party | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """A client that trusts one authority and shows a certificate, or none."""
    context = ssl.create_default_context(cadata=root.pem)
    if shown is not None and folder is not None:
        file = folder / "shown.pem"
        file.write_text(shown.key_pem() + shown.pem)
        context.load_cert_chain(file)
    return context


class Authorities:
    def __init__(self) -> None:
        self.root, self.other = party("root", None, ca=True), party("other", None, ca=True)
        self.server = party("localhost", self.root, ca=False)
        self.client = party("client", self.root, ca=False)
        self.stranger = party("stranger", self.other, ca=False)


@pytest.fixture(scope="module")
def made() -> Authorities:
    return Authorities()


def settings(folder: Path, made: Authorities, **more: str) -> Mapping[str, str]:
    """A worker's properties with a key store and a trust store in PEM."""
    (folder / "server.pem").write_text(made.server.key_pem() + made.server.pem)
    (folder / "root.pem").write_text(made.root.pem)
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "root.pem"),
    }
    return stores | {f"ssl.{name.replace('_', '.')}": value for name, value in more.items()}


def context(properties: Mapping[str, str]) -> ssl.SSLContext:
    return listener_context(properties, "listeners.https.")


async def test_https_is_spoken_with_the_key_of_a_pem_file(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_https_is_spoken_with_the_key_of_a_pkcs12_store(tmp_path: Path, made: Authorities) -> None:
    (tmp_path / "server.p12").write_bytes(made.server.p12(PASSWORD))
    store = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.password": PASSWORD,
    }
    async with serving(context(store)) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_https_is_spoken_with_a_key_that_stands_in_the_properties(made: Authorities) -> None:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": made.server.key_pem(PASSWORD),
        "ssl.keystore.certificate.chain": made.server.pem,
        "ssl.key.password": PASSWORD,
    }
    async with serving(context(store)) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_plain_http_is_not_answered_by_an_https_listener(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        assert await told(port, GREETING) == b""


async def test_a_required_certificate_lets_its_owner_in(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made, client_auth="required"))) as port:
        assert (await asked(port, trusting(made.root, made.client, tmp_path))).endswith("https 0")


async def test_a_requested_certificate_need_not_be_shown(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made, client_auth="requested"))) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


@pytest.mark.parametrize(
    ("auth", "shown"),
    [
        pytest.param("required", lambda made: None, id="none_where_one_is_required"),
        pytest.param("required", lambda made: made.stranger, id="a_strangers_where_one_is_required"),
        pytest.param("requested", lambda made: made.stranger, id="a_strangers_where_one_is_requested"),
    ],
)
async def test_no_request_gets_through_without_a_certificate_that_is_trusted(
    tmp_path: Path, made: Authorities, auth: str, shown: Callable[[Authorities], Party | None]
) -> None:
    served = []

    async def note(request: Request) -> Response:
        served.append(request.url)
        return Response()

    application = Starlette(routes=[Route("/", note)])
    async with serving(context(settings(tmp_path, made, client_auth=auth)), application) as port:
        with contextlib.suppress(OSError):
            await asked(port, trusting(made.root, shown(made), tmp_path))
    assert served == []


@pytest.mark.parametrize(
    ("given", "version"),
    [
        pytest.param({"enabled_protocols": "TLSv1.2"}, "TLSv1.2", id="the_older_one_alone"),
        pytest.param({"enabled_protocols": "TLSv1.3"}, "TLSv1.3", id="the_newer_one_alone"),
        pytest.param({}, "TLSv1.3", id="the_newest_of_both"),
        pytest.param(
            {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, "TLSv1.2", id="a_suite_of_the_older"
        ),
    ],
)
async def test_the_version_spoken_is_one_that_is_enabled(
    tmp_path: Path, made: Authorities, given: dict[str, str], version: str
) -> None:
    async with serving(context(settings(tmp_path, made, **given))) as port, asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(made.root))
        assert writer.get_extra_info("ssl_object").version() == version
        writer.transport.abort()


async def test_a_client_of_another_version_is_refused(tmp_path: Path, made: Authorities) -> None:
    client = trusting(made.root)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(context(settings(tmp_path, made, enabled_protocols="TLSv1.3"))) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asked(port, client)


async def test_the_cipher_suite_is_the_one_that_is_allowed(tmp_path: Path, made: Authorities) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with serving(context(settings(tmp_path, made, cipher_suites=suite))) as port, asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(made.root))
        assert writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        writer.transport.abort()


async def test_half_a_handshake_does_not_hold_the_end_up(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01")
        await writer.drain()
        await asked(port, trusting(made.root))
    writer.transport.abort()
