"""Tables of settings. Each setting is declared once, with type, default, importance and meaning.

Parsing, validation and error texts follow Kafka's ConfigDef (clients 4.3.1) word for word, because clients show them and
scripts search for them. Inputs are texts (or None for a JSON null), results are Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mirror_connect.connectors.config.values import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Secret,
    Type,
    java_text,
    parse,
    trim,
    wire_text,
)
from mirror_connect.connectors.errors import ConfigError

__all__ = [
    "BOOLEAN",
    "CLASS",
    "DOUBLE",
    "HIGH",
    "INT",
    "LIST",
    "LONG",
    "LOW",
    "MEDIUM",
    "PASSWORD",
    "REQUIRED",
    "SHORT",
]
__all__ += ["STRING", "ConfigTable", "Key", "RefusedConfig", "Secret", "Settings", "ValidatedKey", "Validator", "infos"]

HIGH: Final = "HIGH"
MEDIUM: Final = "MEDIUM"
LOW: Final = "LOW"
T = TypeVar("T")


class _Required:
    """Marks a key without a default. It has its own type, because None is a valid default."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
NULL_REFUSED: Final = "Null value can not be supplied as the configuration value."

# (name, parsed value, quote) → error text or None. `quote` renders the value for the text. If a config provider gave the
# value, it shows the reference (`${file:…}`), so an error never shows a resolved secret.
Quote = Callable[[object], str]
Validator = Callable[[str, Any, Quote], str | None]


class RefusedConfig(ConfigError):
    """A setting is refused, and Kafka's text for it isn't `Invalid value … for configuration …`."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, None, text)
        self.args = (text,)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `order`: Kafka's number within the group (-1 = none)."""

    name: str
    type: Type
    default: Any
    importance: str
    meaning: str
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display: str | None = None
    validator: Validator | None = None
    recommended: tuple[str, ...] = ()
    visible_with: str | None = None  # shown only if this other key names an existing class
    # Of a CLASS: the error text for a name that Kafka doesn't have, instead of Kafka's text. None: no error.
    foreign: Callable[[str], str | None] | None = None

    def definition(self) -> dict[str, Any]:
        """The definition as Connect's REST returns it (fields and order of ConfigKeyInfo)."""
        required = self.default is REQUIRED
        return {
            "name": self.name,
            "type": self.type,
            "required": required,
            "default_value": None if required else wire_text(self.default, self.type),
            "importance": self.importance,
            "documentation": self.meaning,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display if self.display is not None else self.name,
            "dependents": [],
        }


@dataclass(slots=True)
class ValidatedKey:
    """The validation of one setting: its value as text (`[hidden]` for passwords) and every error.

    `parsed` is the Python value, None if it couldn't be parsed. `key` is None for a name that no table has.
    """

    name: str
    key: Key | None
    value: str | None
    parsed: Any = field(repr=False)
    errors: list[str]
    visible: bool = True

    def info(self) -> dict[str, Any]:
        """The member of `configs` in a validation answer."""
        return {
            "definition": self.key.definition() if self.key else None,
            "value": {
                "name": self.name,
                "value": self.value,
                "recommended_values": list(self.key.recommended) if self.key else [],
                "errors": self.errors,
                "visible": self.visible,
            },
        }


class Settings:
    """Parsed values of a table's keys. `originals`: all texts of the config, with unknown names."""

    def __init__(self, values: Mapping[str, Any], originals: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.originals: Mapping[str, str] = dict(originals)

    def __repr__(self) -> str:
        # Names only: unknown names (source.cluster.sasl.jaas.config …) have no type that could hide their values.
        return f"Settings({', '.join(sorted(self.originals))})"

    def __getitem__(self, name: str) -> Any:
        """The parsed value, None if there is none; KeyError for a name that no table declares."""
        return self._values[name]

    def text(self, name: str) -> str:
        """A STRING or CLASS setting that has a value."""
        return self._typed(name, str)

    def boolean(self, name: str) -> bool:
        """A BOOLEAN setting."""
        return self._typed(name, bool)

    def integer(self, name: str) -> int:
        """An INT, SHORT or LONG setting."""
        return self._typed(name, int)

    def number(self, name: str) -> float:
        """A DOUBLE setting."""
        return self._typed(name, float)

    def texts(self, name: str) -> list[str]:
        """A LIST setting."""
        return list(self._typed(name, list))

    def secret(self, name: str) -> Secret | None:
        """A PASSWORD setting."""
        return None if self._values[name] is None else self._typed(name, Secret)

    def _typed(self, name: str, wanted: type[T]) -> T:
        value = self._values[name]
        if not isinstance(value, wanted):
            raise ConfigError(name, None, f"a value of type {wanted.__name__} is needed")
        return value


class ConfigTable:
    """An ordered set of keys. Tables can be added: `COMMON + MORE`. ValueError if a name is declared twice."""

    def __init__(self, *keys: Key) -> None:
        self.keys: dict[str, Key] = {}
        for key in keys:
            if key.name in self.keys:
                raise ValueError(f"setting {key.name} is declared twice")
            self.keys[key.name] = key

    def __add__(self, other: ConfigTable) -> ConfigTable:
        return ConfigTable(*self.keys.values(), *other.keys.values())

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys.values())

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __len__(self) -> int:
        return len(self.keys)

    def parse_all(self, config: Mapping[str, str]) -> Settings:
        """The values of all keys. The first error is raised as ConfigError with Kafka's text."""
        results = self.validate_all(config)
        for result in results.values():
            if result.errors:
                raise RefusedConfig(result.name, result.errors[0])
        return Settings({name: result.parsed for name, result in results.items()}, config)

    def validate_all(
        self, config: Mapping[str, str | None], as_written: Mapping[str, str | None] | None = None
    ) -> dict[str, ValidatedKey]:
        """Checks every key and collects all errors. Unknown names with a null value are errors, too.

        `as_written`: the config before config providers replaced references. If it differs, answers and error texts show
        the reference. (Java shows the resolved value, which reveals secrets.)
        """
        results = {key.name: self._validate(key, config, as_written) for key in self}
        for name, value in config.items():
            # For a null of a known name, its validator has all of Kafka's errors.
            if value is None and name not in self:
                results[name] = ValidatedKey(name, None, None, None, [NULL_REFUSED])
        return results

    def _validate(
        self, key: Key, config: Mapping[str, str | None], as_written: Mapping[str, str | None] | None
    ) -> ValidatedKey:
        given = config.get(key.name)
        reference = (as_written or {}).get(key.name)
        referenced = reference is not None and reference != given

        def quote(value: object) -> str:
            return reference if referenced and reference is not None else java_text(value)

        errors: list[str] = []
        value: Any = None
        if key.name in config:
            problem, value = parse(given, key.type)
            if problem is not None and key.foreign is not None and given is not None:
                problem, value = key.foreign(trim(given)), trim(given)
                value = value if problem is None else None
            if problem is not None:
                # Only the problem of a class quotes the value.
                text = "Class could not be found." if referenced and key.type == CLASS else problem
                errors.append(f"Invalid value {quote(given)} for configuration {key.name}: {text}")
        elif key.default is REQUIRED:
            errors.append(f'Missing required configuration "{key.name}" which has no default value.')
        else:
            value = key.default
        # Kafka runs the validator even after a failed parse, on null: hence two errors for tasks.max=abc.
        if key.validator is not None and (complaint := key.validator(key.name, value, quote)) is not None:
            errors.append(complaint)
        shown = wire_text(value, key.type)
        if referenced and shown is not None and key.type != PASSWORD:
            shown = reference
        visible = key.visible_with is None or _names_a_class(config.get(key.visible_with))
        return ValidatedKey(key.name, key, shown, value, errors, visible)


def _names_a_class(text: str | None) -> bool:
    return text is not None and parse(text, CLASS)[0] is None


def infos(class_name: str, table: ConfigTable, results: Iterable[ValidatedKey]) -> dict[str, Any]:
    """The answer to `PUT /connector-plugins/…/config/validate`. Entries without a definition come first."""
    in_order = sorted(results, key=lambda result: result.key is not None)  # stable
    keys = [*table, *(result.key for result in in_order if result.key is not None)]
    groups = dict.fromkeys(key.group for key in keys if key.group is not None)
    return {
        "name": class_name,
        "error_count": sum(len(result.errors) for result in in_order),
        "groups": list(groups),
        "configs": [result.info() for result in in_order],
    }
