"""Stores that are made to cost: what their maker chose holds neither the interpreter nor the memory of a worker."""

from __future__ import annotations

import base64
import hashlib
import random
import subprocess
import threading
import time
from pathlib import Path

import jks
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS
from mirror_connect.kafka_io.client.store_work import work_problem
from mirror_connect.kafka_io.client.tls import TlsSettings
from tests.fakes.certificates import Party, party
from tests.paths import ROOT

PASSWORD = "hunter22"
TWO_THOUSAND_MILLION = (1 << 31) - 1
PBES2, PBKDF2, SCRYPT = "2a864886f70d01050d", "2a864886f70d01050c", "2b06010401da47040b"
AES_256_CBC, HMAC_SHA256 = "60864801650304012a", "2a864886f70d0209"
SUN_JCE = "2b060104012a021301"


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    length = (
        bytes([size])
        if size < 128
        else bytes([0x80 | (size.bit_length() + 7) // 8]) + size.to_bytes((size.bit_length() + 7) // 8)
    )
    return bytes([tag]) + length + content


def sequence(*contents: bytes) -> bytes:
    return der(0x30, *contents)


def oid(hexadecimal: str) -> bytes:
    return der(6, bytes.fromhex(hexadecimal))


def octets(content: bytes) -> bytes:
    return der(4, content)


def integer(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1))


def encrypted(*derivation: bytes, content: bytes = bytes(range(48))) -> bytes:
    """An encrypted PKCS8 key. The initialization vector is zero."""
    cipher = sequence(oid(AES_256_CBC), octets(bytes(16)))
    return sequence(sequence(oid(PBES2), sequence(sequence(*derivation), cipher)), octets(content))


def pem(content: bytes, kind: str = "ENCRYPTED PRIVATE KEY") -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(content).decode()}-----END {kind}-----\n"


def by_pbkdf2(iterations: int, content: bytes = bytes(range(48))) -> bytes:
    parameters = sequence(octets(b"saltsalt"), integer(iterations), sequence(oid(HMAC_SHA256), der(5)))
    return encrypted(oid(PBKDF2), parameters, content=content)


def locked_key(own: Party, iterations: int) -> str:
    """A party's key, really encrypted so."""
    plain = own.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    padding = 16 - len(plain) % 16
    key = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"saltsalt", iterations, 32)
    packer = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return pem(by_pbkdf2(iterations, packer.update(plain + bytes([padding]) * padding) + packer.finalize()))


def by_scrypt(cost: int, parallel: int) -> bytes:
    return encrypted(oid(SCRYPT), sequence(octets(b"saltsalt"), integer(cost), integer(8), integer(parallel)))


def pkcs12(iterations: int) -> bytes:
    """A store as OpenSSL writes it, but for the iterations of its MAC."""
    store = party("own", None, ca=True).p12(PASSWORD)
    at = 4  # the header: both lengths in it take two bytes
    assert store[1] == 0x82
    elements = []
    while at < len(store):
        extra = store[at + 1] & 0x7F if store[at + 1] & 0x80 else 0
        size = int.from_bytes(store[at + 2 : at + 2 + extra]) if extra else store[at + 1]
        elements.append(store[at : at + 2 + extra + size])
        at += 2 + extra + size
    version, safe, mac = elements
    count = mac.rindex(b"\x02", 0, len(mac) - 1)
    while der(2, mac[count + 2 :]) != mac[count:]:
        count = mac.rindex(b"\x02", 0, count)
    assert mac[1] < 0x80
    return sequence(version, safe, sequence(mac[2:count], integer(iterations)))


def jceks() -> bytes:
    own = party("own", None, ca=True)
    key = own.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = own.certificate.public_bytes(serialization.Encoding.DER)
    entry = jks.PrivateKeyEntry.new("own", [certificate], key)
    entry.encrypt(PASSWORD)
    algorithm = sequence(oid(SUN_JCE), sequence(octets(b"saltsalt"), integer(TWO_THOUSAND_MILLION)))
    entry._encrypted = sequence(algorithm, octets(bytes(48)))
    content = b"\xce\xce\xce\xce" + jks.KeyStore.new("jks", [entry]).saves(PASSWORD)[4:-20]
    return content + hashlib.sha1(PASSWORD.encode("utf-16be") + b"Mighty Aphrodite" + content).digest()


def opened(folder: Path, name: str, content: bytes | str, **more: str) -> TlsSettings:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    given = {"ssl.keystore.location": str(folder / name), "ssl.key.password": PASSWORD}
    return TlsSettings.of(
        CLIENT_KEYS["admin"].parse_all({**given, **{f"ssl.keystore.{k}": v for k, v in more.items()}})
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["pbkdf2", "scrypt_time", "scrypt_memory", "pkcs12_mac", "jceks"])
def test_a_store_that_asks_for_endless_work_is_refused_while_everybody_else_goes_on(tmp_path: Path, name: str) -> None:
    certificate = party("own", None, ca=True).pem
    as_store = {"type": "PKCS12", "password": PASSWORD}
    content, more = {
        "pbkdf2": (pem(by_pbkdf2(TWO_THOUSAND_MILLION)) + certificate, {"type": "PEM"}),
        "scrypt_time": (pem(by_scrypt(1 << 14, 1 << 16)) + certificate, {"type": "PEM"}),
        "scrypt_memory": (pem(by_scrypt(1 << 24, 1)) + certificate, {"type": "PEM"}),
        "pkcs12_mac": (pkcs12(TWO_THOUSAND_MILLION), as_store),
        "jceks": (jceks(), {**as_store, "type": "JCEKS"}),
    }[name]
    longest, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal longest
        last = time.monotonic()
        while not ended.wait(0.01):
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with pytest.raises(ConfigError, match=r"(keystore\.location|key\.password): ") as caught:
            opened(tmp_path, "store", content, **more)
    finally:
        ended.set()
        watching.join()
    assert "its encryption asks for " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert longest < 5  # of the interpreter: it is what holds the lease


@pytest.mark.parametrize("iterations", [2_048, 600_000])
def test_iterations_that_are_in_use_are_taken(tmp_path: Path, iterations: int) -> None:
    own = party("own", None, ca=True)
    made = opened(tmp_path, "store", locked_key(own, iterations) + own.pem, type="PEM")
    assert made.pair is not None
    assert made.pair.key == own.key_pem()


def test_a_process_that_opens_a_store_is_shown_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = subprocess.run

    def watched(command: list[str], **given: object) -> object:
        seen.append((command, given["env"]))
        return run(command, **given)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", watched)
    monkeypatch.setenv("A_SECRET_OF_THE_WORKER", PASSWORD)
    own = party("own", None, ca=True)
    opened(tmp_path, "store", own.key_pem(PASSWORD) + own.pem, type="PEM")
    assert len(seen) == 1
    assert PASSWORD not in repr(seen)


@pytest.mark.timeout(120)
def test_work_that_is_not_seen_from_outside_is_ended_by_the_processs_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As what lies in an encrypted part of a PKCS12 store: the parameters are hidden from who looks.
    monkeypatch.setattr("mirror_connect.kafka_io.client.stores._MODULE", "tests.fakes.blind_store_process")
    monkeypatch.syspath_prepend(str(ROOT))
    certificate = party("own", None, ca=True).pem
    with pytest.raises(ConfigError, match="opening it takes more than 2 s of processor time"):
        opened(tmp_path, "store", pem(by_pbkdf2(TWO_THOUSAND_MILLION)) + certificate, type="PEM")


def test_what_is_no_store_has_nothing_that_speaks_against_it() -> None:
    noise = random.Random(7)
    for size in range(400):
        work_problem(noise.randbytes(size))
    whole = by_pbkdf2(TWO_THOUSAND_MILLION)
    assert [work_problem(whole[:size]) for size in range(20)] == [None] * 20
    assert work_problem(b"\x30\x80" * 100_000) is None
