"""Key stores and keys whose encryption asks for as much work as a test wants."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jks
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS
from mirror_connect.kafka_io.client.tls import TlsSettings
from tests.fakes.certificates import Party, party

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
    """A party's key, encrypted with this number of iterations."""
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
    """A store as OpenSSL writes it, except for the iterations of its MAC."""
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
