"""Reads Java's TLS settings (`ssl.*`), for Python's ssl and for librdkafka. Private keys stay in memory."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ConfigError

if TYPE_CHECKING:
    from mirror_connect.kafka_io.client.stores import KeyPair, Store

ClientAuth = Literal["none", "requested", "required"]
_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_TYPES: Final = ("JKS", "PKCS12", "PEM", "JCEKS")
_TLS13_SUITE: Final = re.compile(r"TLS_(AES|CHACHA20|SM4)_\w+")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings of a client or listener. `trusted` None: the system's; `ciphers` None: OpenSSL's default.

    `oldest` and `newest` affect Python's connections only: librdkafka has no such setting (its OpenSSL uses 1.2 and 1.3).
    """

    trusted: str | None
    pair: KeyPair | None
    check_host: bool = True
    oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str | None = None
    own_versions: bool = field(default=False)

    @classmethod
    def of(cls, settings: Settings) -> TlsSettings:
        """From parsed client settings. ConfigError names the setting and the file; reads the stores."""
        names = settings.texts("ssl.enabled.protocols")
        for name in names:
            if name not in _VERSIONS:
                raise ConfigError("ssl.enabled.protocols", name, f"it has to be among {', '.join(_VERSIONS)}")
        versions = [_VERSIONS[name] for name in names] or [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
        oldest, newest = min(versions), max(versions)
        suites = settings.texts("ssl.cipher.suites")
        new_suites = [suite for suite in suites if _TLS13_SUITE.fullmatch(suite) and "_WITH_" not in suite]
        if suites and not new_suites:
            newest = min(newest, ssl.TLSVersion.TLSv1_2)
        old_suites = [_openssl_name(suite) for suite in suites if suite not in new_suites]
        if suites and not old_suites:
            oldest = max(oldest, ssl.TLSVersion.TLSv1_3)
        if oldest > newest:
            raise ConfigError("ssl.cipher.suites", ",".join(suites), "none of them belongs to ssl.enabled.protocols")
        algorithm = settings["ssl.endpoint.identification.algorithm"] or ""
        if algorithm.lower() not in ("", "https"):
            raise ConfigError(
                "ssl.endpoint.identification.algorithm", algorithm, "it has to be https, or empty for no check"
            )
        made = cls(
            trusted=_trusted(settings),
            pair=_pair(settings),
            check_host=algorithm != "",
            oldest=oldest,
            newest=newest,
            ciphers=":".join(old_suites) or None,
            own_versions=bool(new_suites) or set(names) != {"TLSv1.2", "TLSv1.3"},
        )
        made.context()  # OpenSSL's errors come now, with the setting's name, not at the first connection
        return made

    def context(self) -> ssl.SSLContext:
        """A new context for client connections of Python."""
        context = self._limited(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host
        context.verify_mode = ssl.CERT_REQUIRED
        if self.trusted is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.trusted)
        self._show_pair(context)
        return context

    def server_context(self, client_auth: ClientAuth) -> ssl.SSLContext:
        """A new context for a Python listener. ConfigError without a key pair, or without a trust store for clients.

        As in Java, the hosts in clients' certificates are not checked: a trusted client may come from anywhere.
        """
        if self.pair is None:
            problem = "an https listener needs a key store with its private key and certificate"
            raise ConfigError("ssl.keystore.location", None, problem)
        context = self._limited(ssl.PROTOCOL_TLS_SERVER)
        if client_auth != "none":
            if self.trusted is None:
                # Jetty would trust the key store's own certificate then; the system's roots would admit too many clients.
                problem = (
                    f"ssl.client.auth={client_auth} needs a trust store: it says whose certificates clients may use"
                )
                raise ConfigError("ssl.truststore.location", None, problem)
            context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=self.trusted)
        self._show_pair(context)
        return context

    def _limited(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        # Java trusts every certificate of a trust store; without this flag, OpenSSL requires a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.minimum_version = self.oldest
        context.maximum_version = self.newest
        if self.ciphers:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError:
                raise ConfigError("ssl.cipher.suites", self.ciphers, "OpenSSL knows none of these suites") from None
        return context

    def _show_pair(self, context: ssl.SSLContext) -> None:
        if self.pair is not None:
            with in_memory(self.pair.chain) as chain, in_memory(self.pair.key) as key:
                try:
                    context.load_cert_chain(chain, key)
                except ssl.SSLError as error:
                    raise ConfigError(
                        "ssl.keystore", None, f"the private key and its certificate: {error.reason}"
                    ) from None

    def librdkafka(self) -> dict[str, Any]:
        """The same settings for librdkafka."""
        found: dict[str, Any] = {"ssl.endpoint.identification.algorithm": "https" if self.check_host else "none"}
        if self.trusted is not None:
            found["ssl.ca.pem"] = self.trusted
        if self.pair is not None:
            found |= {"ssl.certificate.pem": self.pair.chain, "ssl.key.pem": self.pair.key}
        if self.ciphers:
            found["ssl.cipher.suites"] = self.ciphers
        return found


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """A path under which the text can be read once, without a file on any disk.

    Linux: a memfd. Elsewhere: a pipe under /dev/fd, which holds 16 KiB at least before writing would block; longer
    texts raise OSError there.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        try:
            with open(descriptor, "w", encoding="ascii", closefd=False) as file:
                file.write(text)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        try:
            if os.write(writing, text.encode("ascii")) < len(text):
                raise OSError("the PEM text is too long for a pipe")
        finally:
            os.close(writing)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def _store(settings: Settings, which: Literal["keystore", "truststore"]) -> Store | None:
    location = settings[f"ssl.{which}.location"]
    if not location:
        return None
    kind = settings.text(f"ssl.{which}.type").upper()
    if kind not in _TYPES:
        raise ConfigError(f"ssl.{which}.type", kind, f"it has to be one of {', '.join(_TYPES)}")
    password, key_password = settings.secret(f"ssl.{which}.password"), settings.secret("ssl.key.password")
    if kind == "PEM" and password is not None:
        raise ConfigError(
            f"ssl.{which}.password", None, "a PEM store has no password; the private key's is ssl.key.password"
        )
    from mirror_connect.kafka_io.client.stores import Store  # noqa: PLC0415 — slow to import, see there

    return Store(
        f"ssl.{which}",
        location,
        kind,
        password.reveal() if password else None,
        key_password.reveal() if key_password else None,
    )


def _inline(settings: Settings, name: str, which: Literal["keystore", "truststore"]) -> str | None:
    """A PEM text given as a setting's value: only for stores of type PEM, and not beside a file."""
    secret = settings.secret(name)
    if secret is None:
        return None
    if settings.text(f"ssl.{which}.type").upper() != "PEM":
        raise ConfigError(f"ssl.{which}.type", settings[f"ssl.{which}.type"], f"it has to be PEM when {name} is given")
    if settings[f"ssl.{which}.location"]:
        raise ConfigError(name, None, f"it can't be given together with ssl.{which}.location")
    return secret.reveal()


def _trusted(settings: Settings) -> str | None:
    given = _inline(settings, "ssl.truststore.certificates", "truststore")
    if given is not None:
        from mirror_connect.kafka_io.client.stores import certificates  # noqa: PLC0415 — as above

        return certificates("ssl.truststore.certificates", given)
    store = _store(settings, "truststore")
    return store.trusted() if store else None


def _pair(settings: Settings) -> KeyPair | None:
    key = _inline(settings, "ssl.keystore.key", "keystore")
    chain = _inline(settings, "ssl.keystore.certificate.chain", "keystore")
    if (key is None) != (chain is None):
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise ConfigError(missing, None, "the private key and its certificate chain have to be given together")
    if key is not None and chain is not None:
        from mirror_connect.kafka_io.client.stores import KeyPair, certificates, private_key  # noqa: PLC0415 — as above

        password = settings.secret("ssl.key.password")
        return KeyPair(
            private_key("ssl.keystore.key", key, password.reveal() if password else None),
            certificates("ssl.keystore.certificate.chain", chain),
        )
    store = _store(settings, "keystore")
    return store.key_pair() if store else None


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a TLS 1.2 suite that Java names: TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 → ECDHE-RSA-AES128-SHA256."""
    match = re.fullmatch(r"(?:TLS|SSL)_(\w+?)_WITH_(\w+)", suite)
    if match is None:
        return suite
    exchange, cipher = match.groups()
    cipher = (
        re.sub(r"(AES|CAMELLIA|ARIA)_(128|256)", r"\1\2", cipher)
        .replace("_CBC", "")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    )
    return "-".join(filter(None, ["" if exchange == "RSA" else exchange.replace("_", "-"), cipher.replace("_", "-")]))
