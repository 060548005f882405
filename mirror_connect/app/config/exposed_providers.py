"""Config providers that give anything to anybody: told at the start, where REST is reached from elsewhere without a login.

A connector's config may send any value of a provider as a password to any broker: with a provider that reads every file or
every variable, whoever reaches REST reads them. Connect starts so, and so do we; the line says what to set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from mirror_connect.app.config.listeners import Listener
from mirror_connect.kafka_io.client.addresses import is_loopback

# Simple class name → the parameter that limits what it gives.
_LIMITS: Final = {
    "FileConfigProvider": "allowed.paths",
    "DirectoryConfigProvider": "allowed.paths",
    "EnvVarConfigProvider": "allowlist.pattern",
}


def exposed_providers_line(
    properties: Mapping[str, str], listeners: Sequence[Listener], *, login: bool, certificates: bool
) -> str | None:
    """The warning, or None. `login`: REST asks for a password; `certificates`: https listeners want a client's."""
    if login:
        return None
    open_ones = [
        each for each in listeners if not is_loopback(each.host) and not (certificates and each.scheme == "https")
    ]
    unlimited = _unlimited(properties)
    if not open_ones or not unlimited:
        return None
    return (
        f"Whoever reaches {', '.join(map(str, open_ones))} can read, without a login, whatever the config "
        f"provider{'s' if len(unlimited) > 1 else ''} can: set {', '.join(unlimited)}; or rest.extension.classes, "
        "ssl.client.auth=required, or listeners on 127.0.0.1"
    )


def _unlimited(properties: Mapping[str, str]) -> list[str]:
    """The settings that would limit providers and are not there."""
    found = []
    for alias in filter(None, re.split(r"\s*,\s*", properties.get("config.providers", "").strip())):
        prefix = f"config.providers.{alias}."
        limit = _LIMITS.get(properties.get(f"{prefix}class", "").strip().rpartition(".")[2])
        if limit is not None and not properties.get(f"{prefix}param.{limit}", "").strip():
            found.append(f"{prefix}param.{limit}")
    return found
