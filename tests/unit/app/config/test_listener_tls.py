"""The TLS settings of https listeners: where they are taken from, and what is said of wrong ones."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.config.bounded_file import UNREADABLE
from mirror_connect.connectors.errors import ConfigError
from tests.fakes.certificates import Party, party

PASSWORD = "hunter22"
MINIMAL = {
    "bootstrap.servers": "a:1",
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


@pytest.fixture(scope="module")
def server() -> Party:
    return party("localhost", None, ca=True)


@pytest.fixture
def pem(tmp_path: Path, server: Party) -> dict[str, str]:
    file = tmp_path / "server.pem"
    file.write_text(server.key_pem() + server.pem)
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}


def prefixed(prefix: str, settings: dict[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in settings.items()}


HTTPS = MINIMAL | {"listeners": "https://127.0.0.1:0"}


def test_an_http_listener_needs_no_key_store() -> None:
    assert worker_config(MINIMAL).tls is None


def test_a_worker_whose_admin_listeners_alone_are_https_has_a_context_for_them(pem: dict[str, str]) -> None:
    config = worker_config(MINIMAL | pem | {"admin.listeners": "https://127.0.0.1:0"})
    assert (config.tls, isinstance(config.admin_tls, ssl.SSLContext)) == (None, True)


def test_a_missing_key_store_is_named_as_the_sample_file_names_it() -> None:
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.keystore\.location") as refused:
        worker_config(HTTPS)
    assert refused.value.name == "listeners.https.ssl.keystore.location"


@pytest.mark.parametrize("prefix", ["listeners.https.", ""], ids=["its_own", "the_worker's"])
def test_the_key_store_is_that_of_the_listeners_or_of_the_worker(pem: dict[str, str], prefix: str) -> None:
    assert worker_config(HTTPS | prefixed(prefix, pem)).tls is not None


def test_one_setting_of_its_own_and_the_workers_count_no_more(pem: dict[str, str]) -> None:
    with pytest.raises(
        ConfigError, match=r"^Invalid listeners\.https\.ssl\.keystore\.location: an https listener needs"
    ):
        worker_config(HTTPS | pem | {"listeners.https.ssl.client.auth": "none"})


def test_admin_listeners_do_not_borrow_from_the_main_ones(pem: dict[str, str]) -> None:
    settings = prefixed("listeners.https.", pem) | {"admin.listeners": "https://127.0.0.1:0"}
    with pytest.raises(
        ConfigError, match=r"^Invalid admin\.listeners\.https\.ssl\.keystore\.location: an https listener needs"
    ):
        worker_config(HTTPS | settings)


@pytest.mark.parametrize("auth", ["required", "requested"])
def test_clients_are_not_asked_for_certificates_that_nothing_could_judge(pem: dict[str, str], auth: str) -> None:
    with pytest.raises(ConfigError, match=rf"ssl\.truststore\.location: ssl\.client\.auth={auth} needs a trust store"):
        worker_config(HTTPS | pem | {"ssl.client.auth": auth})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(
            {"ssl.keystore.location": "/nowhere/ssl.keystore"},
            "Invalid value /nowhere/ssl.keystore for configuration PREFIXssl.keystore.location: " + UNREADABLE,
            id="no_file",
        ),
        pytest.param(
            {"ssl.client.auth": "maybe"},
            "Invalid value maybe for configuration PREFIXssl.client.auth: String must be one of: required, requested, none",
            id="client_auth",
        ),
        pytest.param(
            {"ssl.enabled.protocols": "TLSv1.9"},
            "Invalid value TLSv1.9 for configuration PREFIXssl.enabled.protocols: it has to be among TLSv1, TLSv1.1, "
            "TLSv1.2, TLSv1.3",
            id="protocol",
        ),
        pytest.param(
            {"ssl.cipher.suites": "TLS_OF_MY_OWN"},
            "Invalid value TLS_OF_MY_OWN for configuration PREFIXssl.cipher.suites: OpenSSL knows none of these suites",
            id="cipher_suite",
        ),
        pytest.param(
            {"ssl.keystore.type": "ZIP"},
            "Invalid value ZIP for configuration PREFIXssl.keystore.type: it has to be one of JKS, PKCS12, PEM, JCEKS",
            id="store_type",
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["listeners.https.", ""], ids=["its_own", "the_worker's"])
def test_a_wrong_setting_is_named_as_it_stands_in_the_file(
    pem: dict[str, str], given: dict[str, str], problem: str, prefix: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        worker_config(HTTPS | prefixed(prefix, pem | given))
    assert str(refused.value) == problem.replace("PREFIX", prefix)


def test_a_wrong_password_is_not_told(tmp_path: Path, server: Party) -> None:
    file = tmp_path / "server.p12"
    file.write_bytes(server.p12(PASSWORD))
    store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(file), "ssl.keystore.password": "not-this-one"}
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.keystore\.password is wrong") as refused:
        worker_config(HTTPS | prefixed("listeners.https.", store))
    assert "not-this-one" not in str(refused.value)


def test_an_unknown_setting_behind_the_prefix_is_named(pem: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    worker_config(HTTPS | prefixed("listeners.https.", pem) | {"listeners.https.ssl.keystroe.type": "PEM"})
    assert "listeners.https.ssl.keystroe.type" in caplog.text
