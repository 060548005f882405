"""Key and trust stores of each format, read in this process."""

from __future__ import annotations

from typing import Any

import jks
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.store_formats import OpenStore, certificates, private_key
from mirror_connect.kafka_io.client.stores import KeyPair, Store
from tests.fakes.certificates import Party, party

PASSWORD, KEY_PASSWORD = "hunter22", "hunter33"
ROOT = party("root", None, ca=True)
MIDDLE = party("middle", ROOT, ca=True)
CLIENT = party("client", MIDDLE, ca=False)
CHAIN = CLIENT.pem + MIDDLE.pem + ROOT.pem


def der(each: Party) -> bytes:
    return each.certificate.public_bytes(serialization.Encoding.DER)


def packed(others: list[Party], password: str = PASSWORD) -> bytes:
    """A PKCS12 store of the client's key, its certificate and others, in that order."""
    protection = serialization.BestAvailableEncryption(password.encode())
    rest = [each.certificate for each in others]
    return pkcs12.serialize_key_and_certificates(b"client", CLIENT.key, CLIENT.certificate, rest, protection)


def java_key_store(key_password: str = KEY_PASSWORD) -> bytes:
    key = CLIENT.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    entry = jks.PrivateKeyEntry.new("client", [der(each) for each in (CLIENT, MIDDLE, ROOT)], key)
    entry.encrypt(key_password)
    return bytes(jks.KeyStore.new("jks", [entry]).saves(PASSWORD))


def java_trust_store(*trusted: Party) -> bytes:
    entries = [jks.TrustedCertEntry.new(f"ca{number}", der(each)) for number, each in enumerate(trusted)]
    return bytes(jks.KeyStore.new("jks", entries).saves(PASSWORD))


TRUSTED_PKCS12 = pkcs12.serialize_java_truststore(
    [pkcs12.PKCS12Certificate(each.certificate, None) for each in (ROOT, MIDDLE)],
    serialization.BestAvailableEncryption(PASSWORD.encode()),
)


def store(kind: str, content: bytes | str, which: str = "keystore", **passwords: str | None) -> OpenStore:
    given: dict[str, Any] = {"password": None if kind == "PEM" else PASSWORD, "key_password": None} | passwords
    return OpenStore(
        Store(f"ssl.{which}", "/some/file", kind, **given), content.encode() if isinstance(content, str) else content
    )


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("content", [java_trust_store(ROOT, MIDDLE), TRUSTED_PKCS12], ids=["jks_file", "pkcs12_file"])
def test_a_trust_store_is_read_by_what_its_file_holds_not_by_its_type(kind: str, content: bytes) -> None:
    trusted = store(kind, content, "truststore").trusted()
    assert sorted(trusted.split("-----END")) == sorted((ROOT.pem + MIDDLE.pem).split("-----END"))


def test_a_pem_trust_store_may_have_text_between_its_certificates() -> None:
    assert store("PEM", f"# root\n{ROOT.pem}# other\n{MIDDLE.pem}", "truststore").trusted() == ROOT.pem + MIDDLE.pem


@pytest.mark.parametrize(
    "key_store",
    [
        pytest.param(store("PEM", CLIENT.key_pem() + CHAIN), id="pem"),
        pytest.param(store("PEM", CLIENT.key_pem(PASSWORD) + CHAIN, key_password=PASSWORD), id="encrypted_pem"),
        pytest.param(store("PKCS12", packed([MIDDLE, ROOT])), id="pkcs12"),
        pytest.param(store("JKS", java_key_store(), key_password=KEY_PASSWORD), id="jks"),
        pytest.param(store("JKS", java_key_store(PASSWORD)), id="jks_with_one_password"),
    ],
)
def test_a_key_store_gives_its_key_and_the_chain_from_its_owner_to_the_root(key_store: OpenStore) -> None:
    assert key_store.key_pair() == KeyPair(CLIENT.key_pem(), CHAIN)


def test_a_chain_is_put_in_order_and_has_no_strangers() -> None:
    stranger = party("stranger", None, ca=True)
    assert store("PKCS12", packed([stranger, ROOT, MIDDLE])).key_pair().chain == CHAIN


@pytest.mark.parametrize("line_end", ["\n", " "], ids=["lines", "one_line"])
def test_pem_may_stand_in_one_line(line_end: str) -> None:
    assert certificates("ssl.truststore.certificates", CHAIN.replace("\n", line_end)) == CHAIN
    for password in (None, PASSWORD):
        text = CLIENT.key_pem(password).replace("\n", line_end)
        assert private_key("ssl.keystore.key", text, password) == CLIENT.key_pem()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(
            store("PKCS12", packed([]), password="other"), "password is wrong, or the file is no", id="pkcs12"
        ),
        pytest.param(
            store("PKCS12", packed([]), password=None), "password is missing, or the file is no", id="missing"
        ),
        pytest.param(
            store("JKS", java_key_store(), password="other"), "password is wrong, or the file is no", id="jks"
        ),
        pytest.param(store("JKS", java_key_store()), "ssl.key.password: it doesn't open the private key", id="jks_key"),
        pytest.param(store("JKS", java_trust_store(ROOT)), "the key store holds no private key", id="no_key_in_jks"),
        pytest.param(store("PKCS12", TRUSTED_PKCS12), "the key store holds no private key", id="no_key_in_pkcs12"),
        pytest.param(store("PEM", ROOT.pem), "it holds no private key in PEM", id="no_key_in_pem"),
        pytest.param(store("PEM", CLIENT.key_pem()), "it holds no certificate in PEM", id="no_certificate"),
        pytest.param(store("PEM", CLIENT.key_pem(PASSWORD)), "is encrypted, its password is missing", id="encrypted"),
        pytest.param(
            store("PEM", CLIENT.key_pem(PASSWORD), key_password="other"),
            "ssl.key.password: the private key can't be opened with it",
            id="another_password",
        ),
        pytest.param(store("JKS", b"\xfe\xed\xfe\xed cut"), "is no JKS store", id="jks_cut_off"),
    ],
)
def test_a_key_store_that_cannot_be_read_is_refused_with_the_setting(given: OpenStore, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        given.key_pair()
    assert reason in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("content", [java_trust_store(), java_key_store()], ids=["empty", "key_store"])
def test_a_store_without_certificates_to_trust_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError, match="the trust store holds no trusted certificate"):
        store("JKS", content, "truststore").trusted()
