"""The client properties in a connector's config, told wrong when the config comes and not when a client is made.

Connect knows no definition of `source.cluster.sasl.mechanism` or `consumer.fetch.max.wait.ms`; such a property fails a
task later. Here each is checked as Kafka's own clients would (client_keys.py), and the complaint stands in the
answer where Connect puts those about names without a definition. `producer.override.*` Connect does judge: by the
definitions of the producer, and by the worker's override policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror_connect.connectors.config.config_table import ConfigTable, ValidatedKey
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.mirror_settings import PRODUCER_OVERRIDE, client_properties
from mirror_connect.connectors.mirror.mirror_settings import Kind as ClientKind
from mirror_connect.connectors.mirror.mirror_settings import Side as ClusterSide
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, prefixed
from mirror_connect.kafka_io.client.client_settings import check_login

_SIDES: Final[tuple[ClusterSide, ...]] = ("source", "target")
_KINDS: Final[tuple[ClientKind, ...]] = ("consumer", "producer", "admin")
# What is left out is no client setting, although it begins like one.
_NOT_OF_CLIENTS: Final = frozenset({"consumer.poll.timeout.ms"})
# The clients that a connector makes with the login that its config holds.
_LOGINS: Final[tuple[tuple[ClusterSide, ClientKind], ...]] = (
    ("source", "consumer"),
    ("source", "admin"),
    ("target", "admin"),
)
_OF_CLUSTERS: Final = ConfigTable(*(key for key in CLIENT_KEYS["admin"] if key.name in CLUSTER_CLIENT_NAMES))

# Prefix → what may follow it; longer prefixes first, so that the first that fits is the one that is meant.
PREFIXES: Final[Mapping[str, ConfigTable]] = {
    **{f"{kind}.override.": CLIENT_KEYS[kind] for kind in _KINDS},
    **{f"{side}.cluster.": _OF_CLUSTERS for side in _SIDES},
    **{f"{side}.{kind}.": CLIENT_KEYS[kind] for side in _SIDES for kind in _KINDS},
    **{f"{kind}.": CLIENT_KEYS[kind] for kind in _KINDS},
}


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """`connector.client.config.override.policy`: which client properties connectors may override; None: all of them."""

    name: str = "All"
    allowed: Collection[str] | None = None

    @classmethod
    def of(cls, name: str, allowlist: Collection[str]) -> OverridePolicy:
        """By the policy's simple name; `allowlist` is `connector.client.config.override.allowlist`."""
        principal = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
        allowed = {"All": None, "None": frozenset[str](), "Principal": principal, "Allowlist": frozenset(allowlist)}
        return cls(name, allowed[name])

    def complaint(self, name: str) -> str | None:
        """What Connect says of an override (the name without prefix) that is not allowed."""
        if self.allowed is None or name in self.allowed:
            return None
        return f"The '{self.name}' policy does not allow '{name}' to be overridden in the connector configuration."


def split(name: str) -> tuple[str, str] | None:
    """Prefix and client property of a connector's property; None for one that is not a client's."""
    if name in _NOT_OF_CLIENTS:
        return None
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix) and name != prefix), None)
    if prefix is None or name in ("source.cluster.alias", "target.cluster.alias"):
        return None
    return prefix, name.removeprefix(prefix)


def check_client_properties(
    config: Mapping[str, str | None], as_written: Mapping[str, str | None], policy: OverridePolicy
) -> dict[str, ValidatedKey]:
    """Every `producer.override.*`, as Connect lists them, and of the others those that something is wrong with.

    `config` is resolved, errors quote `as_written`.
    """
    given = {name: value for name, value in config.items() if value is not None}
    table = ConfigTable()
    for prefix, known in PREFIXES.items():
        parts = filter(None, map(split, given))
        table += prefixed(prefix, known, (own_name for found, own_name in parts if found == prefix))
    judged = table.validate_all({name: given[name] for name in table.keys}, as_written)
    for result in judged.values():
        # A value that can't be read is then said to be null, too, by Connect's validation. A client says the first thing.
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
    told = {}
    for name, result in judged.items():
        if name.startswith(PRODUCER_OVERRIDE):
            told[name] = result
        elif result.errors:
            # Without a definition, as none is told by GET /connector-plugins/…/config.
            told[name] = replace(result, key=None)
    return told


def _login_errors(given: Mapping[str, str]) -> Iterator[ValidatedKey]:
    """Properties that are right one by one and make no login together."""
    for side, kind in _LOGINS:
        try:
            check_login(client_properties(given, side, kind), kind)
        except ConfigError as error:
            # The most particular one of those that give the property is the one that counts.
            names = (f"{side}.{kind}.{error.name}", f"{kind}.{error.name}", f"{side}.cluster.{error.name}")
            name = next((name for name in names if name in given), names[-1])
            yield ValidatedKey(name, None, None, None, [f"Invalid {name}: {error.problem}"])
