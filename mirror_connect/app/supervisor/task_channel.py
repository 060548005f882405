"""Where executors on other machines reach the worker: its address, an open port, and a certificate made at each start.

The certificate's private key never leaves the memory. Its fingerprint travels with each run, so no authority is needed.
Spark's own address for its driver is found here, too: executors need to reach both.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from mirror_connect.app.config.task_listener import TaskListener
from mirror_connect.app.environment import listen_on
from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.kafka_io.client.tls import in_memory

DRIVER_HOST: Final = "spark.driver.host"
BIND_ADDRESS: Final = "spark.driver.bindAddress"
# In no network (RFC 5737): the way there is that of the default route.
_FAR_AWAY: Final = ("192.0.2.1", 9)
# RFC 5280, 4.1.2.5: it does not end.
_NEVER: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class TaskChannel:
    """An open port for executors. `url`, `fingerprint`: what they are told."""

    listener: socket.socket
    tls: ssl.SSLContext = field(repr=False)
    url: str
    fingerprint: str

    @property
    def told(self) -> dict[str, str]:
        """What Spark's driver puts into each run."""
        return {"url": self.url, "fingerprint": self.fingerprint}


def open_task_channel(spark: Mapping[str, str], settings: TaskListener) -> TaskChannel | None:
    """Opens the port; None with a local master, whose tasks use loopback. StartupError if the address can't be used.

    `spark`: with the driver's address, see `with_driver_address`.
    """
    if is_local(spark.get("spark.master", "local")):
        return None
    host = settings.host or spark.get(BIND_ADDRESS, "")
    listener = listen_on(host, settings.port, "task.listener.host and task.listener.port")
    told = settings.advertised_host or spark[DRIVER_HOST]
    port = settings.advertised_port or listener.getsockname()[1]
    tls, fingerprint = _own_certificate()
    return TaskChannel(listener, tls, f"https://{f'[{told}]' if ':' in told else told}:{port}", fingerprint)


def with_driver_address(spark: Mapping[str, str]) -> dict[str, str]:
    """The properties, for a cluster with an address of Spark's driver: this machine's on the way to the master.

    The driver, and the channel with it, then listen on no other address.
    """
    if is_local(spark.get("spark.master", "local")) or spark.get(DRIVER_HOST):
        return dict(spark)
    found = address_towards(spark["spark.master"])
    return {BIND_ADDRESS: found, **spark, DRIVER_HOST: found}


def address_towards(master: str) -> str:
    """This machine's address on the way to a master; on the default route if the master has no address, as on YARN.

    No packet is sent.
    """
    for host, port in (*_addresses_of(master), _FAR_AWAY):
        with contextlib.suppress(OSError):
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as towards:
                towards.connect(address)
                return str(towards.getsockname()[0])
    return socket.gethostname()


def _addresses_of(master: str) -> list[tuple[str, int]]:
    """Of `spark://a:7077,b:7077` and `k8s://https://a:6443`."""
    scheme, _, rest = master.partition("://")
    each = rest.split(",") if scheme == "spark" else [rest] if scheme == "k8s" else []
    parts = [urlsplit(url if "://" in url else f"//{url}") for url in each]
    return [(part.hostname, part.port or 443) for part in parts if part.hostname]


def _own_certificate() -> tuple[ssl.SSLContext, str]:
    """A context that shows a new certificate, and its fingerprint."""
    from cryptography import x509  # noqa: PLC0415 — a tenth of a second, which a start with a local master saves
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    # The name says nothing: whoever is told the fingerprint needs none, and nobody else trusts the certificate.
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mirror-connect")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(_NEVER)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding
    key_text = key.private_bytes(encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with in_memory(certificate.public_bytes(encoding.PEM).decode()) as chain, in_memory(key_text) as private:
        context.load_cert_chain(chain, private)
    return context, hashlib.sha256(certificate.public_bytes(encoding.DER)).hexdigest()
