"""Which references to config providers can be resolved on this machine, and what is said of the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.config.config_providers import Resolver, UnreadableReference, has_reference
from mirror_connect.app.config.provider_names import provider_aliases
from mirror_connect.check.judgement import sentence
from mirror_connect.connectors.errors import ConfigError

REFERENCE: Final = "A config provider holds the value."
NO_VALUE: Final = "Its config provider has no such value on this machine."
STAYS: Final = "The reference has no value, so it stays as text."
CORRECT_REFERENCE: Final = "Correct its provider, path or key."
THERE: Final = "Run check where the worker runs."
PROVIDE: Final = "Provide it, or run check where the worker runs."
_PROVIDER_CLASS: Final = re.compile(r"config\.providers\.[^.]+\.class")
_LOCAL_PROVIDERS: Final = "org.apache.kafka.common.config.provider."
_FILE_PROVIDER: Final = f"{_LOCAL_PROVIDERS}FileConfigProvider"


@dataclass(frozen=True, slots=True)
class References:
    """Of the properties of a worker or an mm2.properties file.

    `unread`: property → why nobody knows its value here, and what to do. `idle`: properties whose reference leads nowhere,
    wherever the worker runs. `resolver`: gives what can be read. `failed`: what it leaves as text because it can't be read.
    """

    unread: Mapping[str, tuple[str, str]]
    idle: frozenset[str]
    resolver: Resolver = field(repr=False)
    failed: tuple[UnreadableReference, ...] = ()


def references(properties: Mapping[str, str]) -> References:
    """Each is looked up by itself: one that can't be read hides no other."""
    referenced = [name for name, value in properties.items() if has_reference(value)]
    unknown = References(dict.fromkeys(referenced, (REFERENCE, THERE)), frozenset(), Resolver({}))
    classes = [value for name, value in properties.items() if _PROVIDER_CLASS.fullmatch(name)]
    # Others may ask over the network.
    if not all(each.strip().startswith(_LOCAL_PROVIDERS) for each in classes):
        return unknown
    try:
        resolver, failed = Resolver.of(properties).without_unreadable(properties)
    except ConfigError:
        return unknown  # the worker's judgement names the provider
    unread = {name: (sentence(error.reason), PROVIDE) for error in failed for name in error.names}
    # A file that can be read has no more keys elsewhere; a folder or an environment may have.
    elsewhere = {
        alias
        for alias in provider_aliases(properties)
        if properties.get(f"config.providers.{alias}.class", "").strip() not in ("", _FILE_PROVIDER)
    }
    idle = set()
    for name, provider in resolver.without_value(properties):
        if name in unread:
            continue
        if provider in elsewhere:
            unread[name] = (NO_VALUE, PROVIDE)
        else:
            idle.add(name)
    return References(unread, frozenset(idle - unread.keys()), resolver, tuple(failed))
