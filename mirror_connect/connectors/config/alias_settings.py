"""Validates the settings of transformations and predicates that a config names by alias, as Connect does.

connectors/mirror/transforms.py says which transformations can be applied. Of another one only the settings that all have are
checked, not its own. Names, order and error texts are those of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from mirror_connect.connectors.config.json_transform_settings import OF_JSON
from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION, NoVersion, unavailable
from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    HIGH,
    LIST,
    MEDIUM,
    NULL_REFUSED,
    REQUIRED,
    STRING,
    ConfigTable,
    Key,
    Quote,
    ValidatedKey,
    Validator,
)
from mirror_connect.connectors.config.validators import distinct, not_empty, not_null, stands_for
from mirror_connect.connectors.config.values import parse
from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.java_regex import compile_java
from mirror_connect.connectors.user_code.known_classes import KNOWN_CLASSES, PREDICATE, TRANSFORMATION

Given = Mapping[str, str | None]


def _expression(name: str, value: Any, quote: Quote) -> str | None:
    """The validator of TopicNameMatches: a Java regular expression that is not empty."""
    if value is None:
        problem = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
    elif value == "":
        return not_empty(name, value, quote)
    else:
        try:
            compile_java(value)
            return None
        except JavaRegexError as error:
            # The text may show parts of the expression, which must stay hidden if a provider gave it.
            problem = str(error) if quote(value) == value else "it is none"
    return f"Invalid value {quote(value)} for configuration {name}: Invalid regex: {problem}"


def _any_expression(name: str, value: Any, quote: Quote) -> str | None:
    """The validator of RegexRouter: it may be empty."""
    return None if value == "" else _expression(name, value, quote)


_OF_A_PREDICATE: Final[Mapping[str, Key]] = {
    "TopicNameMatches": Key(
        "pattern", STRING, REQUIRED, MEDIUM, "Java's regular expression for names of topics.", validator=_expression
    ),
    "HasHeaderKey": Key("name", STRING, REQUIRED, MEDIUM, "Name of a header.", validator=not_empty),
}
_OF_A_TRANSFORMATION: Final[Mapping[str, tuple[Key, ...]]] = {
    "DropHeaders": (
        Key("headers", LIST, REQUIRED, HIGH, "Names of the headers to drop.", validator=distinct(empty=False)),
    ),
    "Filter": (),
    "InsertHeader": (
        Key("header", STRING, REQUIRED, HIGH, "Name of the header to insert.", validator=not_null),
        Key("value.literal", STRING, REQUIRED, HIGH, "Its value, written as it is here.", validator=not_null),
    ),
    "RegexRouter": (
        Key(
            "regex",
            STRING,
            REQUIRED,
            HIGH,
            "Java's regular expression for whole names of remote topics.",
            validator=_any_expression,
        ),
        Key(
            "replacement", STRING, REQUIRED, HIGH, "The name in place of what it matches, with $1 for its first group."
        ),
    ),
}
_OF_TRANSFORMATIONS: Final = (
    Key("negate", BOOLEAN, False, MEDIUM, "Whether the predicate is to be negated."),
    Key("predicate", STRING, None, MEDIUM, "Alias of the predicate that selects the records."),
)


_NAMES: Final = tuple(
    dict.fromkeys(
        (
            *("type", "plugin.version"),
            *(key.name for key in (*_OF_A_PREDICATE.values(), *_OF_TRANSFORMATIONS)),
            *(key.name for keys in (*_OF_A_TRANSFORMATION.values(), *OF_JSON.values()) for key in keys),
        )
    )
)
# The answer for each alias has every known class: a hundred thousand aliases would fill the memory.
MOST_ALIASES: Final = 1000


@dataclass(frozen=True, slots=True)
class _Kind:
    """Transformations or predicates."""

    setting: str
    interface: str
    of_its_own: Callable[[str], tuple[Key, ...]]

    def keys(self, alias: str, class_name: str | None) -> Iterator[Key]:
        """The settings of an alias. `class_name`: its class, if that is of this kind."""
        prefix, group, word = f"{self.setting}.{alias}.", f"{self.setting.capitalize()}: {alias}", self.interface
        plugins = tuple(sorted(name for name, kinds in KNOWN_CLASSES.items() if self.interface in kinds))
        yield Key(
            f"{prefix}type", CLASS, REQUIRED, HIGH, f"Class for the '{alias}' {word.lower()}.", group, 0, "LONG",
            f"{word} type for {alias}", stands_for(self.interface), plugins,
        )  # fmt: skip
        here = KAFKA_VERSION if class_name else None
        yield Key(
            f"{prefix}plugin.version", STRING, here, HIGH, f"Version of the '{alias}' {word.lower()}.", group, 1, "LONG",
            f"{word} version for {alias}", recommended=(here,) if here else (),
        )  # fmt: skip
        for order, key in enumerate(self.of_its_own(class_name) if class_name else (), 2):
            validator = key.validator and _without(prefix, key.validator)
            yield replace(key, name=prefix + key.name, group=group, order=order, display=key.name, validator=validator)


def _without(prefix: str, validator: Validator) -> Validator:
    # A plugin's validators get names without the prefix.
    return lambda name, value, quote: validator(name.removeprefix(prefix), value, quote)


def _of_a_predicate(class_name: str) -> tuple[Key, ...]:
    found = _OF_A_PREDICATE.get(class_name.rpartition(".")[2])
    return () if found is None else (found,)


def _of_a_transformation(class_name: str) -> tuple[Key, ...]:
    return (_own_settings(class_name) or ()) + _OF_TRANSFORMATIONS


def _own_settings(class_name: str) -> tuple[Key, ...] | None:
    """Of a transformation that can be applied; None: it is none. Those for keys and for values have the same."""
    name = class_name.rpartition(".")[2].partition("$")[0]
    return _OF_A_TRANSFORMATION.get(name, OF_JSON.get(name))


def plugin_table(class_name: str) -> tuple[Key, ...] | None:
    """The settings of a predicate, or of a transformation that can be applied; None: it is neither."""
    kinds = KNOWN_CLASSES.get(class_name, frozenset())
    return _of_a_predicate(class_name) if PREDICATE in kinds else _own_settings(class_name)


_KINDS: Final = (
    _Kind("transforms", TRANSFORMATION, _of_a_transformation),
    _Kind("predicates", PREDICATE, _of_a_predicate),
)


def check_aliases(judged: Mapping[str, ValidatedKey], config: Given, as_written: Given) -> dict[str, ValidatedKey]:
    """Validates the settings of each transformation and predicate of a config. `judged` has the lists of aliases."""
    found: dict[str, ValidatedKey] = {}
    for kind in _KINDS:
        listed = judged[kind.setting]
        shown = shown_aliases(kind.setting, listed.parsed or (), config, as_written)
        for alias in islice(shown, MOST_ALIASES):
            found |= _judged(kind, alias, config, as_written)
        if len(shown) < len(set(listed.parsed or ())):
            listed.errors.append(
                f"Invalid value {listed.value} for configuration {kind.setting}: the config has no settings for one of these"
            )
    for name in found:
        if config.get(name, "") is None:
            found[name].errors.append(NULL_REFUSED)
    return found


def idle_alias_settings(config: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The settings of transformations and predicates that nobody reads, in a valid config; and all that could be read.

    Kafka's worker ignores them, too. A misspelt one may leave in the records what it should have left out.
    """
    idle: list[str] = []
    known: list[str] = []
    for kind in _KINDS:
        aliases = parse(config.get(kind.setting), LIST)[1] or ()
        for alias in dict.fromkeys(aliases):
            named = parse(config.get(f"{kind.setting}.{alias}.type"), CLASS)[1]
            known += [key.name for key in kind.keys(alias, named if isinstance(named, str) else None)]
        taken = frozenset(known)
        idle += [name for name in config if name.startswith(f"{kind.setting}.") and name not in taken]
    return idle, known


def unlisted_alias(name: str, config: Given) -> tuple[str, str] | None:
    """The list (`transforms`, `predicates`) that lacks the alias of this setting, and the alias; None if none does."""
    for kind in _KINDS:
        prefix = f"{kind.setting}."
        own = name.removeprefix(prefix)
        if own == name or "." not in own:
            continue
        listed = parse(config.get(kind.setting), LIST)[1] or ()
        if any(own.startswith(f"{alias}.") for alias in listed):
            return None
        # An alias may have dots, and so may the setting behind it. The longest known one is it.
        known = max((each for each in _NAMES if own.endswith(f".{each}")), key=len, default=own.partition(".")[2])
        return kind.setting, own.removesuffix(f".{known}")
    return None


def unused_predicates(config: Given) -> list[str]:
    """The listed predicates that no listed transformation names. Nobody asks them."""
    transformations = parse(config.get("transforms"), LIST)[1] or ()
    named = {config.get(f"transforms.{alias}.predicate") for alias in transformations}
    return [each for each in dict.fromkeys(parse(config.get("predicates"), LIST)[1] or ()) if each not in named]


def shown_aliases(setting: str, aliases: Sequence[str], config: Given, as_written: Given) -> list[str]:
    """The aliases of a list that errors may name, each once: not what a provider gave and no setting has in its name."""
    distinct_ones = list(dict.fromkeys(aliases))
    if config.get(setting) == as_written.get(setting):
        return distinct_ones
    written = written_aliases(setting, as_written)
    return [alias for alias in distinct_ones if alias in written]


def written_aliases(setting: str, config: Given) -> frozenset[str]:
    """What may be an alias by the names of settings: `a` and `a.b` by `transforms.a.b.type`."""
    prefix = f"{setting}."
    names = (name.removeprefix(prefix) for name in config if name.startswith(prefix))
    return frozenset(name[:place] for name in names for place, char in enumerate(name) if char == ".")


def _judged(kind: _Kind, alias: str, config: Given, as_written: Given) -> dict[str, ValidatedKey]:
    prefix = f"{kind.setting}.{alias}."
    names = (prefix + name for name in _NAMES)
    of_alias = {name: config[name] for name in names if name in config}
    named = ConfigTable(*kind.keys(alias, None)).validate_all(of_alias, as_written)[f"{prefix}type"]
    class_name = named.parsed if not named.errors else None
    problem = _wrong_version(class_name, of_alias, as_written, f"{prefix}plugin.version") if class_name else None
    keys = list(kind.keys(alias, class_name))
    results = ConfigTable(*(keys if problem is None else keys[:2])).validate_all(of_alias, as_written)
    results = {key.name: results[key.name] for key in keys if key.name in results}
    if problem is not None:
        for name in ("type", "plugin.version"):
            results[prefix + name].errors.append(problem)
    negate, predicate = f"{prefix}negate", f"{prefix}predicate"
    if negate in results and negate in config and predicate not in config:
        results[f"{prefix}type"].errors.append(
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
        )
    return results


def _wrong_version(class_name: str, config: Given, as_written: Given, name: str) -> str | None:
    version = config.get(name)
    try:
        problem = unavailable(class_name, version)
    except NoVersion as error:
        problem = str(error)
    reference = as_written.get(name)
    return problem.replace(version, reference) if problem and version and reference else problem
