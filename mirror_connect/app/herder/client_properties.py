"""Validates the client properties in a connector's config when the config arrives, not when a client is made.

Connect has no definition of `source.cluster.sasl.mechanism` or `consumer.fetch.max.wait.ms`; a wrong value fails a task
later. Here each is validated as Kafka's own clients do it (client_keys.py). Errors are in the answer where Connect puts
errors of names without a definition. Connect validates `producer.override.*` itself: by the definitions of the producer,
and by the worker's override policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror_connect.app.storage.config_records import set_values
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.config.table import ConfigTable, ValidatedKey
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.settings import PRODUCER_OVERRIDE, client_properties
from mirror_connect.connectors.mirror.settings import Kind as ClientKind
from mirror_connect.connectors.mirror.settings import Side as ClusterSide
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, prefixed
from mirror_connect.kafka_io.client.client_settings import check_login

_SIDES: Final[tuple[ClusterSide, ...]] = ("source", "target")
_KINDS: Final[tuple[ClientKind, ...]] = ("consumer", "producer", "admin")
# Not client settings, although their names begin like one.
_NOT_OF_CLIENTS: Final = frozenset({"consumer.poll.timeout.ms"})
# The clients that a connector makes with the login in its config.
_LOGINS: Final[tuple[tuple[ClusterSide, ClientKind], ...]] = (
    ("source", "consumer"),
    ("source", "admin"),
    ("target", "admin"),
)
_OF_CLUSTERS: Final = ConfigTable(*(key for key in CLIENT_KEYS["admin"] if key.name in CLUSTER_CLIENT_NAMES))

# Prefix → the properties that may follow it; longer prefixes first, so that the first match is the right one.
PREFIXES: Final[Mapping[str, ConfigTable]] = {
    **{f"{kind}.override.": CLIENT_KEYS[kind] for kind in _KINDS},
    **{f"{side}.cluster.": _OF_CLUSTERS for side in _SIDES},
    **{f"{side}.{kind}.": CLIENT_KEYS[kind] for side in _SIDES for kind in _KINDS},
    **{f"{kind}.": CLIENT_KEYS[kind] for kind in _KINDS},
}


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """`connector.client.config.override.policy`: which client properties connectors may override. None: all of them."""

    name: str = "All"
    allowed: Collection[str] | None = None

    @classmethod
    def of(cls, name: str, allowlist: Collection[str]) -> OverridePolicy:
        """From the policy's simple name; `allowlist` is `connector.client.config.override.allowlist`."""
        principal = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
        allowed = {"All": None, "None": frozenset[str](), "Principal": principal, "Allowlist": frozenset(allowlist)}
        return cls(name, allowed[name])

    def complaint(self, name: str) -> str | None:
        """Connect's error for an override that is not allowed (`name` without prefix), or None."""
        if self.allowed is None or name in self.allowed:
            return None
        return f"The '{self.name}' policy does not allow '{name}' to be overridden in the connector configuration."


def split(name: str) -> tuple[str, str] | None:
    """Prefix and client property of a connector's property; None if it is not a client's."""
    if name in _NOT_OF_CLIENTS:
        return None
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix) and name != prefix), None)
    if prefix is None or name in ("source.cluster.alias", "target.cluster.alias"):
        return None
    return prefix, name.removeprefix(prefix)


def check_client_properties(
    config: Mapping[str, str | None], as_written: Mapping[str, str | None], policy: OverridePolicy
) -> dict[str, ValidatedKey]:
    """Every `producer.override.*`, as in Connect, and all other client properties that are wrong.

    `config` is resolved, errors quote `as_written`.
    """
    given = set_values(config)
    table = ConfigTable()
    for prefix, known in PREFIXES.items():
        parts = filter(None, map(split, given))
        table += prefixed(prefix, known, (own_name for found, own_name in parts if found == prefix))
    judged = table.validate_all({name: given[name] for name in table.keys}, as_written)
    for result in judged.values():
        # For a value that can't be read, Connect's validation adds that it is null. A client reports the first error only.
        result.errors = result.errors[:1]
    if not any(result.errors for result in judged.values()):
        for result in _login_errors(given):
            judged.setdefault(result.name, result).errors = result.errors
    for name in given:
        if name.startswith(PRODUCER_OVERRIDE) and name != PRODUCER_OVERRIDE:
            result = judged.setdefault(name, ValidatedKey(name, None, as_written.get(name), None, []))
            complaint = policy.complaint(name.removeprefix(PRODUCER_OVERRIDE))
            if complaint is not None:
                result.errors = [*result.errors, complaint]
    listed = {}
    for name, result in judged.items():
        if name.startswith(PRODUCER_OVERRIDE):
            listed[name] = result
        elif result.errors:
            # Without a definition, as GET /connector-plugins/…/config has none.
            listed[name] = replace(result, key=None)
    return listed


def _login_errors(given: Mapping[str, str]) -> Iterator[ValidatedKey]:
    """Properties that are valid alone, but do not make a login together."""
    for side, kind in _LOGINS:
        try:
            check_login(client_properties(given, side, kind), kind)
        except ConfigError as error:
            # The most specific setting that gives the property is the one that counts.
            names = (f"{side}.{kind}.{error.name}", f"{kind}.{error.name}", f"{side}.cluster.{error.name}")
            name = next((name for name in names if name in given), names[-1])
            yield ValidatedKey(name, None, None, None, [f"Invalid {name}: {error.problem}"])
