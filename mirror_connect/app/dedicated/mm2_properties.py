"""An mm2.properties file that has been read: properties, their lines, references resolved, and who may make findings.

Its flows are those of Mm2Properties.flows; what is wrong is found by cluster_checks.py, name_checks.py and value_checks.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.config.config_providers import Resolver, UnreadableReference
from mirror_connect.app.config.listener_tls import LISTENER_TLS_KEYS
from mirror_connect.app.config.properties import LocatedProperties
from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding, Severity
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mirror_maker_rules import (
    cluster_pairs,
    connector_configs,
    given_to_connectors,
    given_to_worker,
    parsed_list,
    worker_properties,
)
from mirror_connect.app.dedicated.property_places import CLUSTERS, OF_PROCESS, of_process
from mirror_connect.connectors.config.values import BOOLEAN, parse
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, without_work
from mirror_connect.connectors.secrets import is_secret

# A longer value is cut off: a line of a thousand topics helps nobody.
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class Mm2Properties:
    """`located`: as written. `resolved`: with the file's own config providers. `only`: `--clusters`, empty for all.

    `unreadable`: what the config providers can't read. References to it stay as text.
    """

    path: str
    located: LocatedProperties
    resolver: Resolver = field(repr=False)
    resolved: Mapping[str, str] = field(repr=False)
    only: Sequence[str] = ()
    unreadable: Sequence[UnreadableReference] = ()
    # Asked for each property of each flow.
    _origins: dict[tuple[str, ...], dict[str, str]] = field(init=False, default_factory=dict, repr=False)

    @property
    def unread(self) -> frozenset[str]:
        """The properties whose values nobody knows, because they refer to what can't be read."""
        return frozenset(name for error in self.unreadable for name in error.names)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The aliases in the file's order, each once."""
        return tuple(dict.fromkeys(parsed_list(self.resolved.get(CLUSTERS, ""))))

    def resolve(self, derived: Mapping[str, str]) -> dict[str, str]:
        """Properties that are derived from the file, resolved. Nothing is logged: what stays as text is a finding."""
        resolved, _ = self.resolver.preview_with_notices(derived)
        return resolved

    def flows(self) -> list[Flow]:
        """All flows that need a worker here."""
        written = self.located.values
        pairs = cluster_pairs(self.resolved, self.clusters)
        return [
            Flow(
                source,
                target,
                self._enabled(source, target),
                self._without_those_of_the_process(worker_properties(written, source, target)),
                self._with_work(connector_configs(written, source, target)),
            )
            for source, target, _ in pairs
            if not self.only or target in self.only
        ]

    def _with_work(self, configs: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
        # MirrorMaker tries to create the connector again and again, while the others run.
        return {
            name: config
            for name, config in configs.items()
            if name != MirrorCheckpoint().simple_name or without_work(self.resolve(config)) is None
        }

    @staticmethod
    def _without_those_of_the_process(worker: Mapping[str, str]) -> dict[str, str]:
        # A cluster's listeners or plugin.path would be those of the process, if its flow happens to be the first one.
        return {name: value for name, value in worker.items() if not name.startswith(OF_PROCESS)}

    def process(self) -> dict[str, str]:
        """The properties of the whole process, as written."""
        return {name: value for name, value in self.located.values.items() if of_process(name)}

    def listener_tls(self) -> dict[str, str]:
        """`ssl.*` of the top level, as written: those of https listeners, if there is no `listeners.https.*`."""
        return {name: value for name, value in self.located.values.items() if name in LISTENER_TLS_KEYS}

    def origin_in_connectors(self, source: str, target: str, name: str) -> str | None:
        """The property of the file that gives the connectors of a flow a property; None if it is a default."""
        if (source, target) not in self._origins:
            self._origins[source, target] = given_to_connectors(self._names, source, target)
        return self._origins[source, target].get(name)

    def origin_in_worker(self, target: str, name: str) -> str | None:
        """The property of the file that gives the workers on a cluster a property; None if it is a default."""
        if (target,) not in self._origins:
            self._origins[target,] = given_to_worker(self._names, target)
        return self._origins[target,].get(name)

    @property
    def _names(self) -> dict[str, str]:
        return {name: name for name in self.located.values}

    def _enabled(self, source: str, target: str) -> bool:
        # As the connectors read it, which is not quite as MirrorMaker looks for flows: the top level counts, too.
        text = given_to_connectors(self.resolved, source, target).get("enabled")
        return parse(text, BOOLEAN)[1] is True

    def error(self, code: FindingCode, name: str, text: str, remedy: str = "") -> Mm2Finding:
        """An error at a property of the file, or about the whole file if there is no such property."""
        return self._finding(Severity.ERROR, code, name, text, remedy)

    def warning(self, code: FindingCode, name: str, text: str, remedy: str = "") -> Mm2Finding:
        """A warning, alike."""
        return self._finding(Severity.WARNING, code, name, text, remedy)

    def _finding(self, severity: Severity, code: FindingCode, name: str, text: str, remedy: str) -> Mm2Finding:
        value = None if is_secret(name) else self.located.values.get(name)
        if value is not None and len(value) > _LONGEST:
            value = f"{value[:_LONGEST]}…"
        return Mm2Finding(severity, code, self.path, self.located.lines.get(name), name, value, text, remedy)
