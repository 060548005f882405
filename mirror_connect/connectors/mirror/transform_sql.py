"""The SQL that a source connector applies to its records (`spark.transform.*`): what a config says, without asking Spark.

Spark itself reads the statement (spark_jobs/compute/statement.py). Secrets are a column of the table `records`, so that they
are in no statement and in no plan of Spark's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from mirror_connect.connectors.config.table import LOW, PASSWORD, STRING, Key, ValidatedKey
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.lookups import (
    ALLOWED_PATHS,
    LOOKUP,
    NO_LOOKUPS,
    REFRESH,
    SCHEMA,
    Lookup,
    lookups_of,
    problems_of,
)
from mirror_connect.connectors.mirror.sql_limits import too_much, too_much_of_a_statement
from mirror_connect.connectors.secrets import HIDDEN
from mirror_connect.connectors.user_code.user_function import ALLOWED_SETTING

OF_STATEMENTS: Final = "spark.transform."
SQL: Final = f"{OF_STATEMENTS}sql"
VALUE_SCHEMA: Final = f"{OF_STATEMENTS}value.schema"
KEY_SCHEMA: Final = f"{OF_STATEMENTS}key.schema"
# In place of a statement: transform_function.py.
PYTHON: Final = f"{OF_STATEMENTS}python"
# How long a statement or a function may take until the first of the records that it has comes back.
TIMEOUT: Final = f"{OF_STATEMENTS}timeout.ms"
SECRET: Final = f"{OF_STATEMENTS}secret."
MOST_SECRETS: Final = 100
_REFERENCE: Final = "${"
# `sq1` is as like to `sql` as this.
_LIKENESS: Final = 0.6
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Config = Mapping[str, str | None]


_NAMES: Final = (SQL, VALUE_SCHEMA, KEY_SCHEMA, PYTHON, TIMEOUT, REFRESH)
# In the worker's file, and not Spark's.
OF_WORKERS: Final = frozenset({ALLOWED_SETTING, ALLOWED_PATHS})


def is_of_connectors(name: str) -> bool:
    """Whether a connector's config has this setting. Any other `spark.transform.NAME` is one of the worker's file."""
    return name in _NAMES or (name.startswith((SECRET, LOOKUP)) and name not in OF_WORKERS)


def check_unknown(results: dict[str, ValidatedKey], config: Config) -> None:
    """Adds an error for each setting that is none of these. Without it, records would be copied as they are."""
    for setting in config:
        if not setting.startswith(OF_STATEMENTS) or is_of_connectors(setting):
            continue
        name = setting.removeprefix(OF_STATEMENTS)
        near = "it belongs in the worker's file" if setting in OF_WORKERS else _near(name)
        if near is None:
            there = ", ".join((*_NAMES, f"{SECRET}NAME", f"{LOOKUP}NAME"))
            near = f"there are {there}. A setting of Spark belongs in the worker's file"
        found = results.setdefault(setting, ValidatedKey(setting, None, None, None, []))
        found.errors.append(f"Invalid {setting}: a connector has no such setting: {near}")


def _near(name: str) -> str | None:
    """What may have been meant by a name without the prefix that all settings have."""
    first, dot, rest = name.partition(".")
    if dot and (kinds := get_close_matches(first.lower(), ("secret", "lookup"), 1, _LIKENESS)):
        return f"did you mean {OF_STATEMENTS}{kinds[0]}.{rest}?"
    near = get_close_matches(name.lower(), [each.removeprefix(OF_STATEMENTS) for each in _NAMES], 1, _LIKENESS)
    return f"did you mean {OF_STATEMENTS}{near[0]}?" if near else None


@dataclass(frozen=True, slots=True)
class TransformSql:
    """A statement with its schemas. `secret_names`: sorted, as they are in the config. `lookups`: by their names."""

    text: str
    value_schema: str | None = None
    key_schema: str | None = None
    secret_names: tuple[str, ...] = ()
    # By their names. They go from the worker to the task, and as data through Spark. Spark's driver gets them for a preview
    # alone, as data of its rows (spark_jobs/compute/statement_preview.py).
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    lookups: tuple[Lookup, ...] = ()

    @property
    def objects(self) -> tuple[str, ...]:
        """The columns of `records` whose bytes are JSON objects."""
        return tuple(self.schemas)

    @property
    def schemas(self) -> dict[str, str]:
        """By such a column, the fields of its objects."""
        schemas = {"key": self.key_schema, "value": self.value_schema}
        return {name: schema for name, schema in schemas.items() if schema is not None}

    def to_json(self) -> dict[str, Any]:
        """What Spark's driver may know of it: no value of a secret."""
        return {
            "text": self.text,
            "value_schema": self.value_schema,
            "key_schema": self.key_schema,
            "secret_names": list(self.secret_names),
            "lookups": [each.to_json() for each in self.lookups],
        }

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> TransformSql:
        """See `to_json`."""
        return TransformSql(
            found["text"],
            found["value_schema"],
            found["key_schema"],
            tuple(found["secret_names"]),
            lookups=tuple(map(Lookup.from_json, found["lookups"])),
        )


def transform_sql_of(config: Config) -> TransformSql | None:
    """The statement of a config; None if it has none. ConfigError if any of it is not as `check_sql` wants it."""
    text = config.get(SQL)
    if text is None:
        return None
    if not text.strip():
        raise ConfigError(SQL, text, "it has no statement")
    for setting in (SQL, VALUE_SCHEMA, KEY_SCHEMA):
        if (problem := _too_much(setting, config.get(setting) or "")) is not None:
            raise ConfigError(setting, None, problem)
    secrets = secrets_of_config(config)
    for setting, problem in problems_of(config).items():
        raise ConfigError(setting, config.get(setting), problem)
    schemas = config.get(VALUE_SCHEMA), config.get(KEY_SCHEMA)
    return TransformSql(text, *schemas, tuple(secrets), secrets, lookups_of(config))


def secrets_of_config(config: Config) -> dict[str, str]:
    """The secrets by their names, sorted. ConfigError for a name that is none."""
    secrets = {name: config[SECRET + name] or "" for name in _secret_names(config)}
    alike = Counter(map(str.lower, secrets))
    for name in secrets:
        if (problem := _problem_of_name(name, alike)) is not None:
            raise ConfigError(SECRET + name, None, problem)
    return secrets


def check_secrets(
    results: dict[str, ValidatedKey], config: Config, user: str, unresolved: Mapping[str, str]
) -> list[str]:
    """Adds an entry for each secret, with its errors; their names. `user`: the setting of what gets them.

    `unresolved`: see ConnectorDefinition.check.
    """
    names = _secret_names(config)
    alike = Counter(map(str.lower, names))
    for name in names:
        setting = SECRET + name
        value = config[setting]
        # For a null there is an error already.
        found = results.setdefault(setting, ValidatedKey(setting, None, None, None, []))
        found.key = Key(setting, PASSWORD, None, LOW, f"What secrets.{name} is in {user}.")
        found.value = None if value is None else HIDDEN
        if (problem := _problem_of_name(name, alike)) is not None:
            found.errors.append(f"Invalid {setting}: {problem}")
        elif value == "":
            found.errors.append(f"Invalid {setting}: it is empty: give it a value, or leave it out")
        elif value is not None and (problem := _problem_of_value(value, unresolved.get(setting))) is not None:
            found.errors.append(f"Invalid {setting}: {problem}")
    if len(names) > MOST_SECRETS:
        results[SECRET + names[-1]].errors.append(f"Invalid {SECRET}*: more than {MOST_SECRETS} secrets")
    return names


def check_resolved(secrets: Mapping[str, str]) -> None:
    """ConfigError for a secret in whose value a reference is left. Of a config whose references are replaced."""
    for name, value in secrets.items():
        if (problem := _problem_of_value(value)) is not None:
            raise ConfigError(SECRET + name, None, problem)


def check_sql(
    results: dict[str, ValidatedKey], config: Config, as_written: Config, unresolved: Mapping[str, str]
) -> None:
    """Adds the errors that can be known without Spark, and an entry for each secret. `unresolved`: as above."""
    names = check_secrets(results, config, SQL, unresolved)
    of_lookups = check_lookups(results, config, as_written)
    if SQL not in config:
        for setting in (VALUE_SCHEMA, KEY_SCHEMA, *(SECRET + name for name in names), *of_lookups):
            if setting in results:
                results[setting].errors.append(f"Invalid {setting}: it needs {SQL}, which is not set")
        return
    for setting in (SQL, VALUE_SCHEMA, KEY_SCHEMA):
        if setting in results and not results[setting].errors:
            results[setting].errors += _problems_of_text(setting, config[setting] or "", as_written.get(setting))


def check_lookups(results: dict[str, ValidatedKey], config: Config, as_written: Config) -> list[str]:
    """Adds an entry with its errors for each setting of a lookup. Returns these settings."""
    settings = sorted(each for each in config if each.startswith(LOOKUP) and each not in NO_LOOKUPS)
    problems = problems_of(config)
    for setting in dict.fromkeys((*settings, *problems)):
        found = results.setdefault(setting, ValidatedKey(setting, None, None, None, []))
        name = setting.removeprefix(LOOKUP).removesuffix(SCHEMA)
        meaning = "The columns of" if setting.endswith(SCHEMA) else "The file or topic of"
        found.key = Key(setting, STRING, None, LOW, f"{meaning} the table {name}, which {SQL} may join.")
        found.value = as_written.get(setting)
        if setting in problems:
            found.errors.append(f"Invalid {setting}: {problems[setting]}")
        elif setting.endswith(SCHEMA) and as_written.get(setting) != config[setting]:
            # A schema is in Spark's plans and logs.
            found.errors.append(f"Invalid {setting}: it can't come from a config provider")
    return settings


def _problems_of_text(setting: str, text: str, written: str | None) -> list[str]:
    if written != text:
        # A statement is in Spark's plans and logs. What a provider gives may be a secret.
        what = "use a setting spark.transform.secret.NAME for it, and secrets.NAME in the statement"
        return [f"Invalid value {written} for configuration {setting}: it can't come from a config provider: {what}"]
    if not text.strip():
        return [f"Invalid {setting}: it is empty"]
    problem = _too_much(setting, text)
    return [] if problem is None else [f"Invalid {setting}: {problem}"]


def _too_much(setting: str, text: str) -> str | None:
    return too_much_of_a_statement(text) if setting == SQL else too_much(text)


def _secret_names(config: Config) -> list[str]:
    return sorted(name.removeprefix(SECRET) for name in config if name.startswith(SECRET))


def _problem_of_value(value: str, why: str | None = None) -> str | None:
    """A reference without a value stays as text, which everybody can read. Hashes would be made with that text.

    `why`: why it has none, if that is known.
    """
    if _REFERENCE not in value:
        return None
    if why is not None:
        return f"its reference has no value, as {why}: correct the reference, or the config provider"
    return (
        "it holds ${…}: correct the reference, or the config provider; the worker's log says what is missing. "
        "A secret itself can't have these characters"
    )


def _problem_of_name(name: str, alike: Mapping[str, int]) -> str | None:
    """`alike`: how many names there are of each, in small letters."""
    if _NAME.fullmatch(name) is None:
        return "the name of a secret has letters, digits and underscores, and begins with no digit"
    if alike[name.lower()] > 1:
        return "two secrets have this name, and names in SQL are case-insensitive"
    return None
