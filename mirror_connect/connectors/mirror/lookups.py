"""The lookups of a connector's statement: tables that it may join (`spark.transform.lookup.*`), as a config says.

The worker reads them (app/lookups). A join finds at most one row for a record (spark_jobs/compute/lookup_joins.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mirror_connect.connectors.replication_policy import is_topic_name

LOOKUP: Final = "spark.transform.lookup."
SCHEMA: Final = ".schema"
REFRESH: Final = f"{LOOKUP}refresh.interval.seconds"
# Of the worker: in which directories files of lookups may be.
ALLOWED_PATHS: Final = f"{LOOKUP}allowed.paths"
# These begin as the settings of lookups do.
NO_LOOKUPS: Final = frozenset({REFRESH, ALLOWED_PATHS})
MOST_LOOKUPS: Final = 10
# Of a schema.
MOST_CHARACTERS: Final = 20_000
SOURCE: Final = "source"
TARGET: Final = "target"
# The column of a topic's record keys, unless a field of its values has this name.
KEY_COLUMN: Final = "key"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Anybody may send a schema, so neither expression goes back to what it has matched. Numbers are short, as int() refuses
# thousands of digits.
_COLUMN: Final = re.compile(
    r"""
    \s*+ ([A-Za-z_][A-Za-z0-9_]*+) \s++ ([A-Za-z]++) \s*+
    (?: \( \s*+ ([0-9]{1,9}) \s*+ , \s*+ ([0-9]{1,9}) \s*+ \) \s*+ )?
    """,
    re.VERBOSE,
)
# A comma in brackets is within a column. Nothing follows the repetition, so it is never gone back into.
_COLUMNS: Final = re.compile(r"(?:^|,)((?:\([^()]*+\)|[^,])*)")
_MOST_DIGITS: Final = 38
# Of a wrong text, in the line about it.
_MOST_SHOWN: Final = 100

Config = Mapping[str, str | None]


class Format(StrEnum):
    """What a lookup's content is written in."""

    CSV = ".csv"
    JSON_LINES = ".jsonl"
    PARQUET = ".parquet"
    TOPIC = "topic"


class Type(StrEnum):
    """Types of columns, by Spark's names."""

    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


# Spark's other names of these types.
_TYPES: Final[Mapping[str, Type]] = {
    **{each.value: each for each in Type},
    "BYTE": Type.TINYINT,
    "SHORT": Type.SMALLINT,
    "INTEGER": Type.INT,
    "LONG": Type.BIGINT,
    "REAL": Type.FLOAT,
}
INTEGERS: Final = frozenset({Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT})


class WrongLookupError(ValueError):
    """Why a lookup's setting is wrong; the text is the reason alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a lookup. `precision`, `scale`: of DECIMAL."""

    name: str
    type: Type
    precision: int = 0
    scale: int = 0

    @property
    def ddl(self) -> str:
        """Its type as Spark writes it."""
        return f"{self.type}({self.precision},{self.scale})" if self.type is Type.DECIMAL else str(self.type)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table that a statement may join. `schema`: as the config has it; `location`: a path, or source.TOPIC, target.TOPIC.

    Spark's driver knows nothing of where it is.
    """

    name: str
    schema: str
    location: str = field(default="", compare=False)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns. WrongLookupError."""
        return columns_of(self.schema, key=self.location.startswith((f"{SOURCE}.", f"{TARGET}.")))

    def to_json(self) -> dict[str, str]:
        """What Spark's driver may know of it: not where it is."""
        return {"name": self.name, "columns": ", ".join(f"{each.name} {each.ddl}" for each in self.columns)}

    @staticmethod
    def from_json(found: Mapping[str, str]) -> Lookup:
        """See `to_json`."""
        return Lookup(found["name"], found["columns"])


def format_of(location: str) -> Format:
    """What a location has. WrongLookupError if it is none."""
    side, _, topic = location.partition(".")
    if side in (SOURCE, TARGET) and topic:
        if not is_topic_name(topic):
            raise WrongLookupError(
                f"no topic can have the name behind {side}.: it has letters, digits, dots, underscores and hyphens, "
                "249 at most"
            )
        return Format.TOPIC
    if location.startswith("/"):
        for each in (Format.CSV, Format.JSON_LINES, Format.PARQUET):
            if location.endswith(each):
                return each
        raise WrongLookupError("the file's name ends with none of .csv, .jsonl and .parquet")
    raise WrongLookupError(
        "it must be the absolute path of a file (.csv, .jsonl, .parquet), or a topic: source.NAME or target.NAME"
    )


def topic_of(location: str) -> tuple[str, str]:
    """Whether it is at the source or at the target, and its name."""
    side, _, topic = location.partition(".")
    return side, topic


def columns_of(schema: str, *, key: bool = False) -> tuple[Column, ...]:
    """Those that a schema names. `key`: a column for the keys of records is there, too. WrongLookupError."""
    found: list[Column] = []
    names: set[str] = set()
    for text in _COLUMNS.findall(schema):
        match = _COLUMN.fullmatch(text)
        if match is None:
            shown = text.strip()[:_MOST_SHOWN]
            raise WrongLookupError(f"'{shown}' is no column: write a name and a type, as id BIGINT, name STRING")
        column = _column(*match.groups())
        if column.name.lower() in names:
            raise WrongLookupError(f"two columns have the name {column.name}, and names in SQL are case-insensitive")
        names.add(column.name.lower())
        found.append(column)
    if key and KEY_COLUMN not in names:
        found.append(Column(KEY_COLUMN, Type.STRING))
    return tuple(found)


def _column(name: str, type_name: str, precision: str | None, scale: str | None) -> Column:
    kind = _TYPES.get(type_name.upper())
    if kind is None:
        raise WrongLookupError(f"column {name} has type {type_name}: a lookup has {', '.join(Type)}")
    if kind is not Type.DECIMAL:
        if precision is not None:
            raise WrongLookupError(f"column {name}: {kind} has no precision")
        return Column(name, kind)
    if precision is None or scale is None:
        raise WrongLookupError(f"column {name}: write DECIMAL with its digits, as DECIMAL(10,2)")
    if not 0 < int(precision) <= _MOST_DIGITS or int(scale) > int(precision):
        raise WrongLookupError(
            f"column {name}: DECIMAL({precision},{scale}) is none: it has {_MOST_DIGITS} digits at most"
        )
    return Column(name, kind, int(precision), int(scale))


def lookups_of(config: Config) -> tuple[Lookup, ...]:
    """All lookups of a config, by their names; what is wrong is left as it is (see `problems_of`)."""
    return tuple(
        Lookup(name, config.get(LOOKUP + name + SCHEMA) or "", config[LOOKUP + name] or "")
        for name in sorted(_names(config))
    )


def problems_of(config: Config) -> dict[str, str]:
    """By setting, why it is wrong."""
    found: dict[str, str] = {}
    names = _names(config)
    alike = Counter(map(str.lower, names))
    for setting in config:
        if not setting.startswith(LOOKUP) or setting in NO_LOOKUPS:
            continue
        name = setting.removeprefix(LOOKUP)
        if name.endswith(SCHEMA):
            if name.removesuffix(SCHEMA) not in names:
                found[setting] = f"there is no lookup of this name: set {setting.removesuffix(SCHEMA)}"
            continue
        if (problem := _problem(name, alike[name.lower()], config)) is not None:
            found[problem[0]] = problem[1]
    if len(names) > MOST_LOOKUPS:
        found.setdefault(LOOKUP + sorted(names)[-1], f"more than {MOST_LOOKUPS} lookups")
    return found


def _problem(name: str, alike: int, config: Config) -> tuple[str, str] | None:
    """`alike`: how many lookups have this name, in any case."""
    setting = LOOKUP + name
    if _NAME.fullmatch(name) is None:
        return setting, "the name of a lookup has letters, digits and underscores, and begins with no digit"
    if alike > 1:
        return setting, "two lookups have this name, and names in SQL are case-insensitive"
    location, schema = config[setting] or "", config.get(setting + SCHEMA) or ""
    try:
        kind = format_of(location)
    except WrongLookupError as error:
        return setting, str(error)
    if location.startswith(f"{TARGET}.") and not config.get("target.cluster.bootstrap.servers"):
        return setting, "a topic of the target needs target.cluster.bootstrap.servers, which is not set"
    return _problem_of_schema(setting, schema, kind)


def _problem_of_schema(setting: str, schema: str, kind: Format) -> tuple[str, str] | None:
    if not schema.strip():
        return setting, f"it has no columns: set {setting}{SCHEMA}, as id BIGINT, name STRING"
    if len(schema) > MOST_CHARACTERS:
        return setting + SCHEMA, f"more than {MOST_CHARACTERS} characters"
    try:
        columns_of(schema, key=kind is Format.TOPIC)
    except WrongLookupError as error:
        return setting + SCHEMA, str(error)
    return None


def _names(config: Config) -> set[str]:
    return {
        name
        for setting in config
        if setting.startswith(LOOKUP)
        and setting not in NO_LOOKUPS
        and not (name := setting.removeprefix(LOOKUP)).endswith(SCHEMA)
    }
