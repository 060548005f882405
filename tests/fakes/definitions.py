"""What a connector's definition makes of a config, as the answer of a validation shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirror_connect.connectors.config.table import infos
from mirror_connect.connectors.definition import ConnectorDefinition


def infos_of(
    definition: ConnectorDefinition,
    config: Mapping[str, str | None],
    as_written: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """The answer of `PUT /connector-plugins/…/config/validate`; `name` is the class as the config writes it."""
    name = config.get("connector.class") or definition.class_name
    return infos(name, definition.validation_order, definition.validate(config, as_written).values())
