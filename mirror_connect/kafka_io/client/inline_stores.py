"""Client properties that need no files: key and trust stores become PEM texts in the properties themselves.

For tasks on other machines. The worker opens the stores, so their passwords stay with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.config.security_settings import SASL_KEYS, SECURITY_PROTOCOL_KEY, TLS_KEYS
from mirror_connect.connectors.config.table import ConfigTable
from mirror_connect.kafka_io.client.jaas import LoginModule, login_text
from mirror_connect.kafka_io.client.sasl import login_module
from mirror_connect.kafka_io.client.tls import TlsSettings

# What says where a store is, and how it is opened.
STORE_SETTINGS: Final = (
    *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.key.password"),
    *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
    *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates"),
)
_JAAS: Final = "sasl.jaas.config"
_TLS_OF_LOGIN: Final = "ssl."
_SECURITY: Final = ConfigTable(SECURITY_PROTOCOL_KEY) + TLS_KEYS + SASL_KEYS


def with_inline_stores(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a client without files. Reads the stores; ConfigError as the client itself would raise it.

    A client without TLS uses no stores, so it gets none.
    """
    settings = _SECURITY.parse_all({name: value for name, value in properties.items() if name in _SECURITY})
    protocol = settings.text("security.protocol").upper()
    found = {name: value for name, value in properties.items() if name not in STORE_SETTINGS}
    if protocol.endswith("SSL"):
        found |= _inline(TlsSettings.of(settings))
    if protocol.startswith("SASL") and (module := login_module(settings)) is not None:
        tls = {name: value for name, value in module.options.items() if name.startswith(_TLS_OF_LOGIN)}
        if tls:  # to the endpoint of tokens
            options = {name: value for name, value in module.options.items() if name not in STORE_SETTINGS}
            options |= _inline(TlsSettings.of(_SECURITY.parse_all(tls)))
            found[_JAAS] = login_text(LoginModule(module.class_name, module.flag, options))
    return found


def without_store_settings(config: Mapping[str, str]) -> dict[str, str]:
    """A connector's config without these settings, whatever their prefix."""
    return {name: value for name, value in config.items() if not _is_of_a_store(name)}


def _is_of_a_store(name: str) -> bool:
    return any(name == each or name.endswith(f".{each}") for each in STORE_SETTINGS)


def _inline(tls: TlsSettings) -> dict[str, str]:
    found: dict[str, str] = {}
    if tls.trusted is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": tls.trusted}
    if tls.pair is not None:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": tls.pair.key,
            "ssl.keystore.certificate.chain": tls.pair.chain,
        }
    return found
