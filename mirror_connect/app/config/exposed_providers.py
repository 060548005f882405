"""A warning at the start: other machines can use REST without a login, and config providers have no limits.

A connector's config can send any value of a provider as a password to any broker. If a provider reads every file or
variable, anyone who can reach REST reads them. Connect starts like that, and so do we; the line says what to set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirror_connect.app.config.listeners import Listener
from mirror_connect.app.config.provider_names import provider_aliases
from mirror_connect.kafka_io.client.addresses import is_loopback

# Simple class name → the parameter that limits what the provider reads.
_LIMITS: Final = {
    "FileConfigProvider": "allowed.paths",
    "DirectoryConfigProvider": "allowed.paths",
    "EnvVarConfigProvider": "allowlist.pattern",
}


def exposed_providers_line(
    properties: Mapping[str, str], listeners: Sequence[Listener], *, login: bool, certificates: bool
) -> str | None:
    """The warning, or None. `login`: REST requires a password; `certificates`: https listeners require a client's."""
    if login:
        return None
    open_ones = [
        each for each in listeners if not is_loopback(each.host) and not (certificates and each.scheme == "https")
    ]
    unlimited = _unlimited(properties)
    if not open_ones or not unlimited:
        return None
    return (
        f"Anyone who can reach {', '.join(map(str, open_ones))} can read, without a login, everything that the config "
        f"provider{'s' if len(unlimited) > 1 else ''} can: set {', '.join(unlimited)}; or rest.extension.classes, "
        "ssl.client.auth=required, or listeners on 127.0.0.1"
    )


def _unlimited(properties: Mapping[str, str]) -> list[str]:
    """The missing settings that would limit providers."""
    found = []
    for alias in provider_aliases(properties):
        prefix = f"config.providers.{alias}."
        limit = _LIMITS.get(properties.get(f"{prefix}class", "").strip().rpartition(".")[2])
        if limit is not None and not properties.get(f"{prefix}param.{limit}", "").strip():
            found.append(f"{prefix}param.{limit}")
    return found
