"""Java's TLS settings, for Python's ssl and for librdkafka."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from mirror_connect.connectors.config.bounded_file import UNREADABLE
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS
from mirror_connect.kafka_io.client.tls import TlsSettings, in_memory
from tests.fakes.certificates import Party, party

PASSWORD = "hunter22"


@dataclass
class Stores:
    folder: Path
    root: Party
    middle: Party
    client: Party
    server: Party

    def path(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("stores")
    root = party("root", None, ca=True)
    middle = party("middle", root, ca=True)
    made = Stores(folder, root, middle, party("client", middle, ca=False), party("localhost", root, ca=False))
    (folder / "trust.pem").write_text("# a comment\n" + root.pem)
    (folder / "key.pem").write_text(made.client.key_pem() + made.client.pem + middle.pem)
    (folder / "locked.pem").write_text(made.client.key_pem(PASSWORD) + made.client.pem + middle.pem)
    (folder / "empty.pem").write_text("nothing")
    os.mkfifo(folder / "pipe")
    locked = serialization.BestAvailableEncryption(PASSWORD.encode())
    chain = [root.certificate, middle.certificate]  # not in order, which is allowed
    packed = pkcs12.serialize_key_and_certificates(b"client", made.client.key, made.client.certificate, chain, locked)
    (folder / "key.p12").write_bytes(packed)
    keytool = shutil.which("keytool")
    assert keytool is not None

    def run(*arguments: str) -> None:
        subprocess.run([keytool, *arguments], check=True, capture_output=True, timeout=60)

    for kind in ("jks", "pkcs12"):
        run("-importcert", "-noprompt", "-alias", "root", "-file", str(folder / "trust.pem"), "-storetype", kind,
            "-keystore", str(folder / f"trust.{kind}"), "-storepass", PASSWORD)  # fmt: skip
    run("-importkeystore", "-noprompt", "-srckeystore", str(folder / "key.p12"), "-srcstoretype", "pkcs12",
        "-srcstorepass", PASSWORD, "-destkeystore", str(folder / "key.jks"), "-deststoretype", "jks",
        "-deststorepass", PASSWORD, "-destkeypass", "otherkey")  # fmt: skip
    return made


def tls(**given: str) -> TlsSettings:
    properties = {f"ssl.{name.replace('_', '.')}": value for name, value in given.items()}
    return TlsSettings.of(CLIENT_KEYS["admin"].parse_all(properties))


def normal(pem: str) -> list[str]:
    return [certificate.subject.rfc4514_string() for certificate in x509.load_pem_x509_certificates(pem.encode())]


def variants(stores: Stores) -> dict[str, dict[str, str]]:
    """The same trust and the same key, in every form."""
    return {
        "pem": {
            "truststore_type": "PEM", "truststore_location": stores.path("trust.pem"),
            "keystore_type": "PEM", "keystore_location": stores.path("key.pem"),
        },
        "locked_pem": {
            "truststore_type": "PEM", "truststore_location": stores.path("trust.pem"),
            "keystore_type": "PEM", "keystore_location": stores.path("locked.pem"), "key_password": PASSWORD,
        },
        "inline_pem_in_one_line": {
            "truststore_type": "PEM", "truststore_certificates": stores.root.pem.replace("\n", " "),
            "keystore_type": "PEM", "keystore_key": stores.client.key_pem(PASSWORD).replace("\n", " "),
            "keystore_certificate_chain": (stores.client.pem + stores.middle.pem).replace("\n", " "),
            "key_password": PASSWORD,
        },
        "pkcs12": {
            "truststore_type": "PKCS12", "truststore_location": stores.path("trust.pkcs12"),
            "truststore_password": PASSWORD,
            "keystore_type": "PKCS12", "keystore_location": stores.path("key.p12"), "keystore_password": PASSWORD,
        },
        "jks": {
            "truststore_location": stores.path("trust.jks"), "truststore_password": PASSWORD,
            "keystore_location": stores.path("key.jks"), "keystore_password": PASSWORD, "key_password": "otherkey",
        },
        "jks_that_is_pkcs12_inside": {
            "truststore_location": stores.path("trust.pkcs12"), "truststore_password": PASSWORD,
            "keystore_location": stores.path("key.p12"), "keystore_password": PASSWORD,
        },
    }  # fmt: skip


NAMES = ("pem", "locked_pem", "inline_pem_in_one_line", "pkcs12", "jks", "jks_that_is_pkcs12_inside")


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_store_gives_the_same_trust_and_key(stores: Stores, name: str) -> None:
    made = tls(**variants(stores)[name])
    assert made.trusted is not None
    assert made.pair is not None
    assert (normal(made.trusted), normal(made.pair.chain)[:2], made.pair.key) == (
        ["CN=root"],
        ["CN=client", "CN=middle"],
        stores.client.key_pem(),
    )


class Server(threading.Thread):
    """A TLS server that wants a client certificate; keeps the certificates' subjects, or why a handshake failed."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(daemon=True)
        self.seen: list[str] = []
        self.came = threading.Event()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(cadata=stores.root.pem)
        with in_memory(stores.server.pem) as chain, in_memory(stores.server.key_pem()) as key:
            self.context.load_cert_chain(chain, key)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(60)
        self.port: int = self.socket.getsockname()[1]

    def run(self) -> None:
        while not self.came.is_set():
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            try:
                with connection, self.context.wrap_socket(connection, server_side=True) as wrapped:
                    found = wrapped.getpeercert()
                    assert found is not None
                    self.seen.append(str(found["subject"]))
                    wrapped.sendall(b"ok")
            except OSError as error:
                self.seen.append(str(error))
            self.came.set()


@pytest.fixture
def server(stores: Stores) -> Iterator[Server]:
    made = Server(stores)
    made.start()
    yield made
    made.came.set()
    made.socket.close()
    made.join(60)


def greet(server: Server, made: TlsSettings, host: str) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
        made.context().wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        return wrapped.recv(2)


def test_a_python_connection_shows_its_certificate_with_the_whole_chain(stores: Stores, server: Server) -> None:
    assert greet(server, tls(**variants(stores)["jks"]), "localhost") == b"ok"


def test_librdkafka_shows_its_certificate_with_the_whole_chain(stores: Stores, server: Server) -> None:
    config = tls(**variants(stores)["jks"]).librdkafka()
    client = AdminClient(
        {"bootstrap.servers": f"localhost:{server.port}", "security.protocol": "ssl", "log_level": 0, **config}
    )
    server.came.wait(60)
    del client
    assert "client" in server.seen[0]


def test_a_server_of_another_name_is_refused(stores: Stores, server: Server) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(server, tls(**variants(stores)["pem"]), "elsewhere")


def test_the_check_of_the_name_can_be_switched_off(stores: Stores, server: Server) -> None:
    made = tls(**variants(stores)["pem"], endpoint_identification_algorithm="")
    assert greet(server, made, "elsewhere") == b"ok"


def test_a_trusted_certificate_needs_no_root(stores: Stores, server: Server) -> None:
    given = variants(stores)["pem"] | {"truststore_certificates": stores.server.pem}
    del given["truststore_location"]
    assert greet(server, tls(**given), "localhost") == b"ok"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            {"truststore_location": "/none"},
            rf"/none for configuration ssl.truststore.location: {UNREADABLE}$",
            id="missing",
        ),
        pytest.param({"truststore_location": "/dev/zero"}, rf"location: {UNREADABLE}$", id="endless"),
        pytest.param({"keystore_location": "pipe"}, rf"location: {UNREADABLE}$", id="pipe"),
        pytest.param(
            {"truststore_location": "trust.jks", "truststore_password": "wrong!"},
            r"password is wrong",
            id="jks_password",
        ),
        pytest.param(
            {"truststore_location": "trust.pkcs12", "truststore_type": "PKCS12", "truststore_password": "wrong!"},
            r"password is wrong, or the file is no PKCS12 store",
            id="pkcs12_password",
        ),
        pytest.param(
            {"truststore_location": "empty.pem", "truststore_type": "PEM"}, r"no certificate in PEM", id="empty_pem"
        ),
        pytest.param(
            {"truststore_location": "trust.pem", "truststore_type": "BCFKS"}, r"ssl.truststore.type", id="type"
        ),
        pytest.param({"truststore_location": "trust.pem"}, r"is no JKS store", id="pem_called_jks"),
        pytest.param(
            {"truststore_certificates": "x"}, r"ssl.truststore.type: it has to be PEM", id="inline_without_type"
        ),
        pytest.param(
            {"keystore_location": "key.jks", "keystore_password": PASSWORD, "key_password": "wrong!"},
            r"ssl.key.password: it doesn't open",
            id="jks_key_password",
        ),
        pytest.param(
            {"keystore_location": "locked.pem", "keystore_type": "PEM"}, r"password is missing", id="locked_key"
        ),
        pytest.param(
            {"keystore_location": "locked.pem", "keystore_type": "PEM", "key_password": "wrong!"},
            r"ssl.key.password",
            id="pem_key_password",
        ),
        pytest.param(
            {"keystore_location": "trust.pkcs12", "keystore_type": "PKCS12", "keystore_password": PASSWORD},
            r"no private key",
            id="a_trust_store_as_key_store",
        ),
        pytest.param({"enabled_protocols": "SSLv3"}, r"ssl.enabled.protocols", id="old_protocol"),
        pytest.param({"cipher_suites": "NONSENSE"}, r"ssl.cipher.suites", id="suite"),
        pytest.param(
            {"endpoint_identification_algorithm": "ldaps"}, r"ssl.endpoint.identification.algorithm", id="check"
        ),
        pytest.param(
            {"keystore_type": "PEM", "keystore_key": "x"}, r"ssl.keystore.certificate.chain", id="half_a_pair"
        ),
    ],
)
def test_a_wrong_store_is_one_line_that_names_the_setting(stores: Stores, given: dict[str, str], reason: str) -> None:
    placed = {
        name: stores.path(value) if name.endswith("location") and "/" not in value else value
        for name, value in given.items()
    }
    with pytest.raises(ConfigError, match=reason) as caught:
        tls(**placed)
    assert "wrong!" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_javas_suites_are_given_their_openssl_names() -> None:
    suites = (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    )
    assert (
        tls(cipher_suites=",".join(suites)).ciphers
        == "ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA:ECDHE-ECDSA-CHACHA20-POLY1305"
    )


def test_old_suites_alone_leave_out_tls_1_3() -> None:
    assert (
        tls(cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384").context().maximum_version == ssl.TLSVersion.TLSv1_2
    )


def test_new_suites_alone_leave_out_tls_1_2() -> None:
    assert tls(cipher_suites="TLS_AES_256_GCM_SHA384").context().minimum_version == ssl.TLSVersion.TLSv1_3


def test_protocols_bound_the_versions() -> None:
    assert tls(enabled_protocols="TLSv1.3").context().minimum_version == ssl.TLSVersion.TLSv1_3


def test_no_key_is_shown(stores: Stores) -> None:
    assert "PRIVATE KEY" not in repr(tls(**variants(stores)["pem"]))


def test_a_platform_without_memory_files_reads_through_a_pipe(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert tls(**variants(stores)["pem"]).pair is not None
