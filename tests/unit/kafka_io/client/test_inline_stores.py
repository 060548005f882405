"""Client properties without files: each kind of store, what a client makes of them, and what is left out."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from deploy.local.tls_material import TlsMaterial, create_tls_material
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_settings import connection_settings, librdkafka_config
from mirror_connect.kafka_io.client.inline_stores import with_inline_stores, without_store_settings
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS, KAFKA_OPTS


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> TlsMaterial:
    return create_tls_material(tmp_path_factory.mktemp("stores"))


def client(material: TlsMaterial, kind: str) -> dict[str, str]:
    key, trust = {
        "PEM": (material.client.pem, material.authority_pem),
        "PKCS12": (material.client.pkcs12, material.truststore_pkcs12),
        "JKS": (material.client.jks, material.truststore_jks),
    }[kind]
    locations = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(key),
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(trust),
    }
    passwords = {f"ssl.{each}.password": material.password for each in ("keystore", "truststore", "key")}
    of_kind = {} if kind == "PEM" else {name: value for name, value in passwords.items() if "ssl.key." not in name}
    extra = {"ssl.key.password": material.password} if kind == "JKS" else {}
    return {"bootstrap.servers": "b:1", "security.protocol": "SSL", "acks": "all", **locations, **of_kind, **extra}


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
async def test_a_client_of_inline_stores_shows_its_certificate_and_checks_the_others(
    material: TlsMaterial, kind: str
) -> None:
    inline = with_inline_stores(client(material, kind))
    told = "".join(inline.values())
    assert not [name for name in inline if name.endswith((".location", ".password"))]
    assert (material.password in told, "/" + kind in told, inline["acks"]) == (False, False, "all")
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(material.server.certificate_pem, material.server.key_pem)
    accepting.verify_mode = ssl.CERT_REQUIRED
    accepting.load_verify_locations(material.authority_pem)
    seen: list[str] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = writer.get_extra_info("peercert")["subject"]
        seen.append(dict(pair for name in subject for pair in name)["commonName"])
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=accepting)
    made = await asyncio.to_thread(connection_settings, inline, "test")
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=made.ssl_context)
    assert await reader.read() == b""
    writer.close()
    server.close()
    await server.wait_closed()
    assert seen == ["client"]
    assert "ssl.key.pem" in await asyncio.to_thread(librdkafka_config, inline, "producer")


def test_a_changed_file_is_read_anew(material: TlsMaterial, tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    properties = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(store)}
    found = []
    for authority in (material, create_tls_material(tmp_path / "rotated")):
        store.write_bytes(authority.authority_pem.read_bytes())
        found.append(with_inline_stores(properties)["ssl.truststore.certificates"])
    assert found[0] != found[1]


@pytest.mark.parametrize("setting", ["ssl.keystore.location", "ssl.truststore.location"])
def test_a_store_that_is_not_there_is_named_as_by_the_client(material: TlsMaterial, setting: str) -> None:
    properties = {**client(material, "JKS"), setting: "/nowhere/store.jks"}
    for reading in (with_inline_stores, lambda given: connection_settings(given, "test")):
        with pytest.raises(ConfigError) as refused:
            reading(properties)
        assert (refused.value.name, material.password in str(refused.value)) == (setting, False)


def test_a_client_without_tls_gets_no_stores(material: TlsMaterial) -> None:
    given = {**client(material, "JKS"), "security.protocol": "PLAINTEXT", "ssl.keystore.location": "/nowhere"}
    assert with_inline_stores(given) == {"bootstrap.servers": "b:1", "security.protocol": "PLAINTEXT", "acks": "all"}


def test_the_stores_of_a_token_endpoint_are_in_the_login_itself(
    material: TlsMaterial, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://127.0.0.1:1/token"
    monkeypatch.setenv(KAFKA_OPTS, f"-D{ALLOWED_URLS}={url}")
    properties = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": "OAuthBearerLoginModule required clientId=me clientSecret='hu\"sh\\\\h' "
        f"ssl.truststore.location='{material.truststore_jks}' ssl.truststore.password='{material.password}' "
        "ssl.truststore.type=JKS;",
    }
    inline = with_inline_stores(properties)
    assert str(material.truststore_jks) not in inline["sasl.jaas.config"]
    assert material.password not in inline["sasl.jaas.config"]
    made = [connection_settings(each, "test").token_provider for each in (properties, inline)]
    first, second = [each._settings for each in made if each is not None]
    assert (first.client_id, first.client_secret) == (second.client_id, second.client_secret) == ("me", 'hu"sh\\h')
    assert first.tls is not None
    assert second.tls is not None
    assert first.tls.trusted == second.tls.trusted


def test_a_config_loses_them_whatever_their_prefix_and_nothing_else() -> None:
    config = {
        "source.cluster.ssl.keystore.location": "a",
        "producer.override.ssl.truststore.password": "b",
        "ssl.keystore.key": "c",
        "source.cluster.ssl.cipher.suites": "d",
        "topics": "ssl.keystore.key",
    }
    assert sorted(without_store_settings(config)) == ["source.cluster.ssl.cipher.suites", "topics"]
