"""System properties of a Java worker (`-DNAME=VALUE` in KAFKA_OPTS): for the few that Kafka has no other setting for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.errors import ConfigError

KAFKA_OPTS: Final = "KAFKA_OPTS"
# KIP-1139 and CVE-2025-27817: which token endpoints a client may be sent to by its settings; none unless it says so.
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def system_property(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Its value, the last of several as in a JVM. ConfigError if KAFKA_OPTS can't be read."""
    prefix = f"-D{name}="
    try:
        options = shlex.split(environment.get(KAFKA_OPTS, ""))
    except ValueError as error:
        # Nothing of it is shown: Java takes passwords there, too.
        raise ConfigError(KAFKA_OPTS, None, f"it can't be read: {error}") from None
    named = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return named[-1] if named else None


def for_tasks(environment: Mapping[str, str]) -> dict[str, str]:
    """What of KAFKA_OPTS counts in Spark's tasks, as their environment. Not all of it: it may hold passwords."""
    try:
        urls = system_property(ALLOWED_URLS, environment)
    except ConfigError:  # told where it matters, and no reason for others to have no tasks
        return {}
    return {} if urls is None else {KAFKA_OPTS: shlex.quote(f"-D{ALLOWED_URLS}={urls}")}
