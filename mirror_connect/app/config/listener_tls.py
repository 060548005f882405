"""The TLS of https listeners: all settings come from `listeners.https.ssl.*`, or all from the worker's `ssl.*`.

As in Connect (AbstractConfig.valuesWithPrefixAllOrNothing), one setting with the prefix disables those without it. The
stores are read together with the worker's properties, so that a wrong store or password ends the start.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from typing import Final, cast

from mirror_connect.connectors.config.security_settings import TLS_KEYS
from mirror_connect.connectors.config.table import LOW, STRING, ConfigTable, Key, RefusedConfig, Settings
from mirror_connect.connectors.config.validators import one_of
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.tls import ClientAuth, TlsSettings

MAIN_PREFIX: Final = "listeners.https."
ADMIN_PREFIX: Final = "admin.listeners.https."
CLIENT_AUTH_KEY: Final = Key(
    "ssl.client.auth",
    STRING,
    "none",
    LOW,
    "Whether clients of https listeners show a certificate of the trust store: required, requested or none.",
    validator=one_of("required", "requested", "none"),
)
LISTENER_TLS_KEYS: Final = TLS_KEYS + ConfigTable(CLIENT_AUTH_KEY)


def listener_context(values: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """The context of a worker's https listeners. ConfigError names the setting as in the file."""
    return _made(
        values, prefix, lambda tls, settings: tls.server_context(cast(ClientAuth, settings.text("ssl.client.auth")))
    )


def client_context(values: Mapping[str, str]) -> ssl.SSLContext:
    """The context for requests to the https listeners of other workers. ConfigError names the setting as in the file.

    Connect's RestClient takes the settings of its own https listeners, too. It shows the certificate of its key store.
    """
    return _made(values, MAIN_PREFIX, _client_context)


def _client_context(tls: TlsSettings, _: Settings) -> ssl.SSLContext:
    context = tls.context()
    if tls.trusted is None and tls.pair is not None:
        # As Jetty does without a trust store: all workers may have one key store.
        context.load_verify_locations(cadata=tls.pair.chain)
    return context


def _made(
    values: Mapping[str, str], prefix: str, make: Callable[[TlsSettings, Settings], ssl.SSLContext]
) -> ssl.SSLContext:
    given = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    options = given or {name: value for name, value in values.items() if name in LISTENER_TLS_KEYS}
    # With neither, the names that the sample file has.
    prefix = "" if options and not given else prefix
    try:
        settings = LISTENER_TLS_KEYS.parse_all(options)
        return make(TlsSettings.of(settings), settings)
    except ConfigError as error:
        text = re.sub(r"(?<![\w./-])ssl\.(?=[a-z])", f"{prefix}ssl.", str(error))
        raise RefusedConfig(prefix + error.name, text) from None
