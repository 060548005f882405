"""What the logins of a flow's producers lack in an mm2.properties file: a mechanism, or `sasl.jaas.config`.

The connectors' configs have the logins of all other clients, and value_checks.py has those checked with them. The data's
producer is the worker's. Of the others only that of offset syncs is used: on the source, if the file does not move them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mirror_maker_rules import without_prefix
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.connectors.config.values import BOOLEAN, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.settings import PRODUCER_OVERRIDE, Side, client_properties, producer_overrides
from mirror_connect.kafka_io.client.client_settings import check_login

# Which property asks for those of a login: the nearer one first.
ASKERS: Final = ("sasl.mechanism", "security.protocol")


def check_producers(file: Mm2Properties, flow: Flow) -> Iterator[Mm2Finding]:
    """Errors of what makes no login. Other properties of producers may be wrong, too; these errors have their names."""
    # All of the flow's connectors have the same client properties.
    config = file.resolve(next(iter(flow.connectors.values())))

    def in_connectors(*names: str) -> str | None:
        origins = (file.origin_in_connectors(flow.source, flow.target, name) for name in names)
        return next(filter(None, origins), None)

    def of_data(name: str) -> str | None:
        return in_connectors(f"{PRODUCER_OVERRIDE}{name}") or file.origin_in_worker(flow.target, f"producer.{name}")

    data = {**without_prefix(file.resolve(flow.worker), "producer."), **producer_overrides(config)}
    yield from _lacking(file, data, of_data, flow.target)
    if not flow.enabled or parse(config.get("emit.offset-syncs.enabled", "true"), BOOLEAN)[1] is False:
        return  # nobody makes the other producer
    side: Side = "source" if config.get("offset-syncs.topic.location", "source") == "source" else "target"

    def of_syncs(name: str) -> str | None:
        return in_connectors(f"{side}.producer.{name}", f"producer.{name}", f"{side}.cluster.{name}")

    cluster = flow.source if side == "source" else flow.target
    yield from _lacking(file, client_properties(config, side, "producer"), of_syncs, cluster)


def _lacking(
    file: Mm2Properties, properties: Mapping[str, str], origin: Callable[[str], str | None], cluster: str
) -> Iterator[Mm2Finding]:
    try:
        check_login(properties, "producer")
    except ConfigError as error:
        given = origin(error.name)
        if given is None:
            at = next(filter(None, map(origin, ASKERS)), "")
            lacking = error.name if at in ASKERS else f"{cluster}.{error.name}"
            yield file.error(FindingCode.VALUE_INVALID, at, f"it needs {lacking}: {error.problem}")
        else:
            yield file.error(FindingCode.VALUE_INVALID, given, error.problem)
