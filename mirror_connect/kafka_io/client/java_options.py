"""Java system properties (`-DNAME=VALUE` in KAFKA_OPTS), for the few settings that Kafka offers in no other way."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.errors import ConfigError

KAFKA_OPTS: Final = "KAFKA_OPTS"
# The token endpoints that client settings may name; none unless it is set (KIP-1139, CVE-2025-27817).
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def system_property(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The property's value; of several the last one, as in a JVM. ConfigError if KAFKA_OPTS can't be read."""
    prefix = f"-D{name}="
    try:
        options = shlex.split(environment.get(KAFKA_OPTS, ""))
    except ValueError as error:
        # Nothing of it is shown: Java takes passwords there, too.
        raise ConfigError(KAFKA_OPTS, None, f"it can't be read: {error}") from None
    named = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return named[-1] if named else None


def for_tasks(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of KAFKA_OPTS that Spark's tasks use, as their environment. The rest may hold passwords."""
    try:
        urls = system_property(ALLOWED_URLS, environment)
    except ConfigError:  # reported where it is used; other connectors still get their tasks
        return {}
    return {} if urls is None else {KAFKA_OPTS: shlex.quote(f"-D{ALLOWED_URLS}={urls}")}
