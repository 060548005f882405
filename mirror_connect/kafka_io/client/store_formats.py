"""Reads key and trust stores (PEM, PKCS12, JKS) as PEM. Runs in a process of its own, by store_process.py.

The store itself decides how much work opening it takes: iterations of its encryption, sizes of its keys. OpenSSL blocks the
interpreter meanwhile. Errors name the setting and the file, never a password.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any, Final

import jks
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.store_work import work_problem
from mirror_connect.kafka_io.client.stores import KeyPair, Store

# A body has no marks in it, so that blocks without an end are not searched through the rest of the text again and again.
# Not `*+`: before Python 3.11.5, a possessive repetition of a group matches too little.
_BODY: Final = r"(?>(?:(?!-----).)*)"
_CERTIFICATE: Final = re.compile(rf"-----BEGIN CERTIFICATE-----{_BODY}-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(rf"-----BEGIN ([A-Z ]*)PRIVATE KEY-----{_BODY}-----END \1PRIVATE KEY-----", re.DOTALL)
_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A store and its file's content."""

    store: Store
    content: bytes

    def trusted(self) -> str:
        """All certificates of a trust store, as PEM. ConfigError if there are none."""
        content = self.content
        if self.store.type == "PEM":
            return certificates(f"{self.store.setting}.location", _text(content))
        if _is_jks(content):
            found = [_der(der) for der in self._jks(content).certs_der()]
        else:
            found = [_pem(entry.certificate) for entry in self._pkcs12(content)[2]]
        if not found:
            raise ConfigError(
                f"{self.store.setting}.location", self.store.location, "the trust store holds no trusted certificate"
            )
        return "".join(found)

    def key_pair(self) -> KeyPair:
        """The private key and its chain. ConfigError if there is none."""
        content = self.content
        if self.store.type == "PEM":
            text = _text(content)
            location = f"{self.store.setting}.location"
            return KeyPair(private_key(location, text, self.store.key_password), certificates(location, text))
        if _is_jks(content):
            return self._jks(content).key_pair()
        key, own, others = self._pkcs12(content)
        if key is None or own is None:
            raise ConfigError(
                f"{self.store.setting}.location",
                self.store.location,
                "the key store holds no private key with a certificate",
            )
        return KeyPair(
            _pkcs8(key), _pem(own.certificate) + "".join(_pem(entry.certificate) for entry in _chain(own, others))
        )

    def _pkcs12(self, content: bytes) -> tuple[Any, pkcs12.PKCS12Certificate | None, list[pkcs12.PKCS12Certificate]]:
        if problem := work_problem(content):
            raise ConfigError(f"{self.store.setting}.location", self.store.location, problem)
        password = self.store.password.encode() if self.store.password else None
        try:
            loaded = pkcs12.load_pkcs12(content, password)
        except ValueError:
            raise self._unreadable() from None
        return (
            loaded.key,
            loaded.cert,
            list(loaded.additional_certs) + ([loaded.cert] if loaded.cert and not loaded.key else []),
        )

    def _jks(self, content: bytes) -> _Jks:
        try:
            # Without a password, Java skips the check of integrity; pyjks can't skip it.
            loaded = jks.KeyStore.loads(content, self.store.password or "", try_decrypt_keys=False)
        except (jks.util.KeystoreException, ValueError, IndexError, KeyError):
            raise self._unreadable() from None
        return _Jks(self.store, loaded)

    def _unreadable(self) -> ConfigError:
        given = "is wrong, or the file" if self.store.password else "is missing, or the file"
        return ConfigError(
            f"{self.store.setting}.location",
            self.store.location,
            f"{self.store.setting}.password {given} is no {self.store.type} store",
        )


class _Jks:
    """A JKS (or JCEKS) store that was loaded by pyjks."""

    def __init__(self, store: Store, loaded: Any) -> None:
        self._store = store
        self._loaded = loaded

    def certs_der(self) -> list[bytes]:
        return [entry.cert for entry in self._loaded.certs.values()]

    def key_pair(self) -> KeyPair:
        entries = list(self._loaded.private_keys.values())
        setting, location = self._store.setting, self._store.location
        if not entries:
            raise ConfigError(f"{setting}.location", location, "the key store holds no private key with a certificate")
        entry = entries[0]
        if not entry.is_decrypted() and (problem := work_problem(entry._encrypted)):
            raise ConfigError(f"{setting}.location", location, problem)
        try:
            if not entry.is_decrypted():
                entry.decrypt(self._store.key_password or self._store.password or "")
            key = serialization.load_der_private_key(entry.pkey_pkcs8, None)
        except (jks.util.KeystoreException, ValueError):
            raise ConfigError("ssl.key.password", None, f"it doesn't open the private key in {location}") from None
        return KeyPair(_pkcs8(key), "".join(_der(der) for _, der in entry.cert_chain))


def certificates(setting: str, text: str) -> str:
    """The certificates in a PEM text, checked. ConfigError if there are none."""
    found = _CERTIFICATE.findall(_with_line_ends(text))
    try:
        parsed = [x509.load_pem_x509_certificate(entry.encode()) for entry in found]
    except ValueError as error:
        raise ConfigError(setting, None, f"a certificate in it can't be read: {error}") from None
    if not parsed:
        raise ConfigError(setting, None, "it holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
    return "".join(map(_pem, parsed))


def private_key(setting: str, text: str, password: str | None) -> str:
    """The private key in a PEM text, decrypted, as PKCS8 PEM. ConfigError if it isn't there or can't be opened."""
    match = _KEY.search(_with_line_ends(text))
    if match is None:
        raise ConfigError(setting, None, "it holds no private key in PEM (-----BEGIN PRIVATE KEY-----)")
    if problem := work_problem(_der_of(match[0])):
        raise ConfigError(setting, None, problem)
    encrypted = match[1] == "ENCRYPTED " or "Proc-Type: 4,ENCRYPTED" in match[0]
    try:
        key = serialization.load_pem_private_key(
            match[0].encode(), password.encode() if password and encrypted else None
        )
    except TypeError:
        raise ConfigError(
            "ssl.key.password", None, f"the private key of {setting} is encrypted, its password is missing"
        ) from None
    except ValueError:
        raise ConfigError(
            "ssl.key.password" if encrypted else setting,
            None,
            "the private key can't be opened with it" if encrypted else "the private key can't be read",
        ) from None
    return _pkcs8(key)


def _with_line_ends(text: str) -> str:
    """PEM with line ends. Java also accepts blanks, because properties files join lines; OpenSSL does not."""

    def lines(match: re.Match[str]) -> str:
        body = match[2] if ":" in match[2] else "\n".join(match[2].split())
        return f"-----BEGIN {match[1]}-----\n{body.strip()}\n-----END {match[1]}-----"

    return re.sub(rf"-----BEGIN ([A-Z0-9 ]+)-----({_BODY})-----END \1-----", lines, text, flags=re.DOTALL)


def _der_of(pem: str) -> bytes:
    """The content of a PEM block; empty if it is not valid or has headers."""
    try:
        return base64.b64decode("".join(pem.split("-----")[2].split()), validate=True)
    except ValueError:
        return b""


def _is_jks(content: bytes) -> bool:
    # By the file's content: Java's type "JKS" also reads PKCS12 files, and "PKCS12" reads JKS (keystore.type.compat).
    return content[:4] in _JKS_MAGIC


def _chain(own: pkcs12.PKCS12Certificate, others: list[pkcs12.PKCS12Certificate]) -> list[pkcs12.PKCS12Certificate]:
    """The certificates from the own one to its root, in that order; a PKCS12 file has them in any order."""
    by_subject = {entry.certificate.subject: entry for entry in others}
    chain: list[pkcs12.PKCS12Certificate] = []
    last = own.certificate
    while last.issuer != last.subject and (entry := by_subject.pop(last.issuer, None)) is not None:
        chain.append(entry)
        last = entry.certificate
    return chain


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _der(der: bytes) -> str:
    return _pem(x509.load_der_x509_certificate(der))


def _pkcs8(key: Any) -> str:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode()
