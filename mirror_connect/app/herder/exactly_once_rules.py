"""Connect's own rules for the exactly-once settings of a connector's config, with its texts (DistributedHerder, 4.3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.connectors.config.table import ValidatedKey
from mirror_connect.connectors.definition import ConnectorDefinition

EXACTLY_ONCE: Final = "exactly.once.support"
BOUNDARY: Final = "transaction.boundary"
NO_EXACTLY_ONCE: Final = "This worker does not have exactly-once source support enabled."
_UNSUPPORTED: Final = "The connector does not support exactly-once semantics with the provided configuration."
_UNKNOWN: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then consider "
    'reconfiguring the connector to use the value "requested" for this property (which will disable this preflight check '
    "and allow the connector to be created)."
)
_NO_BOUNDARIES: Final = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
    "reconfigure it to use a different transaction boundary definition."
)


def check_exactly_once(
    judged: Mapping[str, ValidatedKey],
    definition: ConnectorDefinition,
    resolved: Mapping[str, str | None],
    support: Support,
) -> None:
    """Adds the errors of both settings to `judged`, which has the connector's own already."""
    if support is Support.NONE:
        return
    level = judged[EXACTLY_ONCE]
    # The connector's own error takes the place of those of Connect.
    if not level.errors and required(resolved):
        level.errors.extend(_of_required(definition, resolved, support))
    boundary = judged[BOUNDARY]
    if not boundary.errors and (resolved.get(BOUNDARY) or "").strip().lower() == "connector":
        boundary.errors.append(_NO_BOUNDARIES)


def required(resolved: Mapping[str, str | None]) -> bool:
    """Whether a valid config asks to be refused where it cannot be copied exactly once."""
    return (resolved.get(EXACTLY_ONCE) or "").strip().lower() == "required"


def _of_required(
    definition: ConnectorDefinition, resolved: Mapping[str, str | None], support: Support
) -> Iterator[str]:
    if support is not Support.ENABLED:
        yield NO_EXACTLY_ONCE
    supported = definition.exactly_once(set_values(resolved))
    if not supported:
        yield _UNKNOWN if supported is None else _UNSUPPORTED
