"""Strimzi's contract for an image in `spec.image`: what its operator mounts and sets, and what its own scripts do with it.

The operator starts /opt/kafka/kafka_connect_run.sh, for a KafkaConnect and a KafkaMirrorMaker2. Up to release 1.0 it
starts /opt/kafka/kafka_mirror_maker_2_run.sh for the latter, which also makes stores of mounted PEM files. In 0.46 both
scripts make those of the worker, too. Compared: 0.46.0, 0.47.0, 0.48.0, 0.49.1, 0.50.0, 0.51.0, 1.0.0, 1.1.0 and 1.2.0.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from deploy.docker.conventions import Mistake, write_private

# Connectors that the operator writes name this file: ${strimzifile:/tmp/strimzi-connect.properties:consumer.client.rack}.
PROPERTIES: Final = "tmp/strimzi-connect.properties"
MOUNTED: Final = "opt/kafka/custom-config/kafka-connect.properties"
STORE_PASSWORD: Final = "MIRRORMAKER_2_CERTS_STORE_PASSWORD"
WORKER_STORE_PASSWORD: Final = "CERTS_STORE_PASSWORD"
_STORES: Final = "tmp/kafka/clusters"
_PEM_FILES: Final = "opt/kafka/mm2-certs"
_WORKER_STORES: Final = "tmp/kafka"
_WORKER_PEM_FILES: Final = "opt/kafka/connect-certs"
_OF_WORKER: Final = ("KAFKA_CONNECT_TRUSTED_CERTS", "KAFKA_CONNECT_TLS_AUTH_CERT", "KAFKA_CONNECT_TLS_AUTH_KEY")
# Set when it is on → what it would do in Strimzi's image.
_SWITCHES: Final[Mapping[str, str]] = {
    "STRIMZI_JMX_ENABLED": "jmxOptions: there is no JMX",
    "STRIMZI_KAFKA_GC_LOG_ENABLED": "gcLoggingEnabled",
}
# metricsConfig with rules for jmx_exporter; the second name is that of operators up to 0.47.
_JMX_EXPORTER: Final = ("KAFKA_CONNECT_JMX_EXPORTER_ENABLED", "KAFKA_CONNECT_METRICS_ENABLED")
# metricsConfig of the Metrics Reporter, which is in the properties.
_REPORTER: Final = re.compile(r"^\s*prometheus\.metrics\.reporter\.listener\.enable\s*=\s*true\s*$", re.MULTILINE)
# The operator opens this port of the pod for both.
_METRICS_PORT: Final = "9404"
_SET: Final[Mapping[str, str]] = {
    "STRIMZI_TRACING": "tracing: records are not touched one by one",
    "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "the heap by a share of the memory: jvmOptions can set -Xmx; 512 MiB is enough",
}


class PemFiles(NamedTuple):
    """What the operator names below a directory: patterns of trusted certificates, a certificate chain and its key."""

    trusted: str | None
    chain: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Pod:
    """How the worker of a pod starts: its properties file, variables to set, lines for the log."""

    properties: Path
    variables: dict[str, str]
    notes: list[str]


def prepare(environment: Mapping[str, str], *, stores: bool, root: Path = Path("/")) -> Pod:
    """Does what Strimzi's script does before it starts the worker. `stores`: of MirrorMaker 2's script, too. Mistake."""
    mounted = root / MOUNTED
    try:
        text = mounted.read_text("iso-8859-1")
    except OSError as error:
        raise Mistake(f"{mounted} can't be read ({error.strerror}): the operator mounts it; is this its pod?") from None
    variables = {"ADVERTISED_HOSTNAME": ".".join(full_host_name().split(".")[:4])}
    options = " ".join(filter(None, map(environment.get, ("KAFKA_OPTS", "STRIMZI_JAVA_SYSTEM_PROPERTIES"))))
    if options:
        variables["KAFKA_OPTS"] = options
    if stores:
        variables[STORE_PASSWORD] = secrets.token_urlsafe(24)
        _make_stores(environment, variables[STORE_PASSWORD], root)
    # Only operators 0.46 set one of these.
    named = PemFiles(*map(environment.get, _OF_WORKER))
    if any(named):
        password = variables[WORKER_STORE_PASSWORD] = secrets.token_urlsafe(24)
        _make_pair(root / _WORKER_STORES / "cluster", root / _WORKER_PEM_FILES, named, password)
    write_private(root / PROPERTIES, text + _metrics(environment, text))
    return Pod(root / PROPERTIES, variables, list(_notes(environment, mounted.parent)))


def full_host_name() -> str:
    """The name as `hostname -f` shows it; in a pod POD.SERVICE.NAMESPACE.svc and the cluster's domain."""
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return name
    return found[0][3] or name


def _metrics(environment: Mapping[str, str], text: str) -> str:
    """The properties that give Prometheus what metricsConfig of the resource asks for."""
    jmx = any(environment.get(name, "").lower() == "true" for name in _JMX_EXPORTER)
    names = "jmx" if jmx else "reporter" if _REPORTER.search(text) else ""
    # What the resource itself sets wins: it comes before.
    given = re.search(r"^\s*metrics\.(port|names)\s*=", text, re.MULTILINE)
    return f"\nmetrics.port={_METRICS_PORT}\nmetrics.names={names}\n" if names and not given else ""


def _notes(environment: Mapping[str, str], mounted: Path) -> Iterator[str]:
    for name, meaning in _SWITCHES.items():
        if environment.get(name, "").lower() == "true":
            yield f"Without effect here: {name} ({meaning})"
    for name, meaning in _SET.items():
        if environment.get(name):
            yield f"Without effect here: {name} ({meaning})"
    logging = [each.name for each in sorted(mounted.glob("log4j*.properties"))]
    if logging:
        yield f"Without effect here: {', '.join(logging)} (logging): set MIRROR_CONNECT_LOG_LEVEL in the container's env"


def _make_stores(environment: Mapping[str, str], password: str, root: Path) -> None:
    trusted = _by_cluster(environment.get("KAFKA_MIRRORMAKER_2_TRUSTED_CERTS_CLUSTERS", ""))
    chains = _by_cluster(environment.get("KAFKA_MIRRORMAKER_2_TLS_AUTH_CERTS_CLUSTERS", ""))
    keys = _by_cluster(environment.get("KAFKA_MIRRORMAKER_2_TLS_AUTH_KEYS_CLUSTERS", ""))
    for alias in filter(None, environment.get("KAFKA_MIRRORMAKER_2_CLUSTERS", "").split(";")):
        stores, files = root / _STORES / alias, root / _PEM_FILES / alias
        _make_pair(stores, files, PemFiles(trusted.get(alias), chains.get(alias), keys.get(alias)), password)


def _make_pair(stores: Path, files: Path, named: PemFiles, password: str) -> None:
    """The stores of one cluster, whose paths begin with `stores`: of the certificates and of the key that are named."""
    stores.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if named.trusted:
        found = [each for pattern in named.trusted.split(";") if pattern for each in sorted(files.glob(pattern))]
        _write_store(stores.with_name(f"{stores.name}.truststore.p12"), _truststore(found, password))
    if named.chain and named.key:
        store = _keystore(files / named.chain, files / named.key, password)
        _write_store(stores.with_name(f"{stores.name}.keystore.p12"), store)


def _by_cluster(text: str) -> dict[str, str]:
    """Lines `ALIAS=FILES`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {alias.strip(): files.strip() for alias, _, files in pairs if files.strip()}


def _truststore(files: list[Path], password: str) -> bytes:
    entries = []
    for file in files:
        for number, certificate in enumerate(_certificates(file)):
            entries.append(PKCS12Certificate(certificate, f"{file}-{number}".encode()))
    if not entries:
        raise Mistake(f"the operator names trusted certificates, but there are none in {', '.join(map(str, files))}")
    return serialize_java_truststore(entries, BestAvailableEncryption(password.encode()))


def _keystore(chain: Path, key: Path, password: str) -> bytes:
    first, *others = _certificates(chain)
    try:
        private = load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        raise Mistake(f"{key} is no private key in PEM without a password") from None
    return serialize_key_and_certificates(
        chain.name.encode(),
        private,  # type: ignore[arg-type]
        first,
        others,
        BestAvailableEncryption(password.encode()),
    )


def _certificates(file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError):
        raise Mistake(f"{file} has no certificate in PEM") from None


def _write_store(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
