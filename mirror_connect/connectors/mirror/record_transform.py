"""What Spark's processes do with the records of a source connector: a statement, a function of the user's, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirror_connect.connectors.config.table import ValidatedKey
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import (
    KEY_SCHEMA,
    PYTHON,
    SQL,
    VALUE_SCHEMA,
    TransformSql,
    check_lookups,
    check_secrets,
    check_sql,
    check_unknown,
    secrets_of_config,
    transform_sql_of,
)
from mirror_connect.connectors.user_code.user_function import name_problem

Config = Mapping[str, str | None]
RecordTransform = TransformSql | TransformFunction


def transform_of(config: Config) -> RecordTransform | None:
    """What a config asks for. ConfigError if any of it is not as `check_transform` wants it."""
    name = config.get(PYTHON)
    if name is None:
        return transform_sql_of(config)
    name = name.strip()
    if (problem := name_problem(name)) is not None:
        raise ConfigError(PYTHON, None, problem)
    if SQL in config:
        raise ConfigError(PYTHON, None, f"there is {SQL}, too: leave out one of them")
    secrets = secrets_of_config(config)
    return TransformFunction(name, tuple(secrets), secrets)


def transform_from_json(found: Mapping[str, Any]) -> RecordTransform:
    """See `to_json` of both."""
    return TransformFunction.from_json(found) if "function" in found else TransformSql.from_json(found)


def setting_of_transform(transform: RecordTransform) -> str:
    """The setting that asks for it."""
    return PYTHON if isinstance(transform, TransformFunction) else SQL


def check_transform(
    results: dict[str, ValidatedKey], config: Config, as_written: Config, unresolved: Mapping[str, str]
) -> None:
    """Adds the errors that can be known here, and an entry for each secret. `unresolved`: see ConnectorDefinition.check."""
    check_unknown(results, config)
    if PYTHON not in config:
        check_sql(results, config, as_written, unresolved)
        return
    check_secrets(results, config, PYTHON, unresolved)
    for setting in (VALUE_SCHEMA, KEY_SCHEMA, *check_lookups(results, config, as_written)):
        if setting in results:
            results[setting].errors.append(f"Invalid {setting}: it belongs to {SQL}. A function gets the bytes")
    found = results.get(PYTHON)
    if found is None or found.errors:
        return
    if as_written.get(PYTHON) != config[PYTHON]:
        # It is in Spark's plans and logs. What a provider gives may be a secret.
        problem: str | None = "it can't come from a config provider"
    else:
        problem = name_problem((config[PYTHON] or "").strip())
    if problem is None and SQL in config:
        problem = f"there is {SQL}, too: leave out one of them, as a function can do all that a statement does"
    if problem is not None:
        found.errors.append(f"Invalid value {as_written.get(PYTHON)} for configuration {PYTHON}: {problem}")
