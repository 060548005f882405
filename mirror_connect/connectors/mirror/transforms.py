"""The transformations of a source connector: which of Kafka's can be applied, and how a config becomes a chain.

Kafka's worker applies a chain to each record before it converts key, value and headers. Keys and values are bytes here. So
transformations that look into them need a JsonConverter in the connector's config, which says that they are JSON. A
predicate on the topic sees the remote topic, as in MirrorMaker 2. RegexRouter gives the remote topic another name, which is
known before any record is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mirror_connect.connectors.config.alias_settings import MOST_ALIASES, shown_aliases, written_aliases
from mirror_connect.connectors.config.converter_settings import JSON_CONVERTER_KEYS
from mirror_connect.connectors.config.json_transform_settings import OF_JSON
from mirror_connect.connectors.config.table import ConfigTable, ValidatedKey
from mirror_connect.connectors.config.values import BOOLEAN, CLASS, LIST, STRING, java_text, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.json_steps.configured import WrongChange, json_change
from mirror_connect.connectors.mirror.chain import Chain, Route, TopicPredicate, Transformation
from mirror_connect.connectors.record_steps import PLAIN_JSON, Action, Condition, JsonForm, JsonStep, Part, Step
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, BoundedReplacement
from mirror_connect.connectors.user_code.java_characters import JavaRegexError
from mirror_connect.connectors.user_code.known_classes import JSON_CONVERTER

_PACKAGE: Final = "org.apache.kafka.connect.transforms."
FILTER: Final = f"{_PACKAGE}Filter"
DROP_HEADERS: Final = f"{_PACKAGE}DropHeaders"
INSERT_HEADER: Final = f"{_PACKAGE}InsertHeader"
REGEX_ROUTER: Final = f"{_PACKAGE}RegexRouter"
TIMESTAMP_ROUTER: Final = f"{_PACKAGE}TimestampRouter"
VALUE_TO_KEY: Final = f"{_PACKAGE}ValueToKey"
# Class → what it changes, of those that look into JSON.
OF_JSON_PARTS: Final[Mapping[str, Part]] = {
    f"{_PACKAGE}{name}${part}": of_part
    for name in OF_JSON
    if name != "ValueToKey"
    for part, of_part in (("Key", Part.KEY), ("Value", Part.VALUE))
} | {VALUE_TO_KEY: Part.KEY_FROM_VALUE}
SUPPORTED: Final = tuple(sorted((DROP_HEADERS, FILTER, INSERT_HEADER, REGEX_ROUTER, *OF_JSON_PARTS)))
TOPIC_NAME: Final = f"{_PACKAGE}predicates.TopicNameMatches"
HAS_HEADER: Final = f"{_PACKAGE}predicates.HasHeaderKey"
TOMBSTONE: Final = f"{_PACKAGE}predicates.RecordIsTombstone"

_OF_SCHEMAS: Final = (
    "as it needs schemas, or looks into JSON and headers at once. These can: "
    f"{', '.join(sorted({'DropHeaders', 'Filter', 'InsertHeader', 'RegexRouter', *OF_JSON}))}"
)
# Part → the parts that have to be JSON.
_NEEDS: Final[Mapping[Part, tuple[str, ...]]] = {
    Part.KEY: ("key",),
    Part.VALUE: ("value",),
    Part.KEY_FROM_VALUE: ("key", "value"),
}
_OF_TIME: Final = (
    "as each record would have its topic by its time. Then no position on the target stands for one at the source. "
    "RegexRouter can"
)

Config = Mapping[str, str | None]


def chain_of(config: Config) -> Chain:
    """The chain of a config. ConfigError if any of it is not as REST's validation wants it.

    A config may not have passed that: other workers store configs, too, and providers change their values. To guess would
    drop records, or copy what should have been dropped.
    """
    aliases = _list(config, "transforms")
    if len(aliases) > MOST_ALIASES:
        raise ConfigError("transforms", None, f"more than {MOST_ALIASES} transformations")
    written = written_aliases("transforms", config)
    for place, alias in enumerate(aliases, 1):
        # By its place, as a provider may have given a secret in place of a name.
        if alias not in written:
            raise ConfigError("transforms", None, f"transformation {place} of it has no type")
    return Chain(tuple(_transformation(config, alias) for alias in aliases))


def has_route(config: Config) -> bool:
    """Whether a RegexRouter is among the transformations, as far as they can be read."""
    aliases = parse(config.get("transforms"), LIST)[1]
    return isinstance(aliases, list) and any(
        _class(config, f"transforms.{each}.type") == REGEX_ROUTER for each in aliases
    )


def check_transforms(results: dict[str, ValidatedKey], config: Config, as_written: Config) -> None:
    """Adds an error for each transformation that can't be applied here, or whose predicate is not declared."""
    listed = results["transforms"]
    if listed.errors:
        return
    if len(listed.parsed or ()) > MOST_ALIASES:
        listed.errors.append(f"Invalid value for configuration transforms: more than {MOST_ALIASES} transformations")
        return
    for alias in shown_aliases("transforms", listed.parsed or (), config, as_written):
        prefix = f"transforms.{alias}."
        kind, predicate = _class(config, f"{prefix}type"), config.get(f"{prefix}predicate")
        if predicate is not None and predicate not in (results["predicates"].parsed or ()):
            listed.errors.append(
                f"Invalid value {as_written.get(f'{prefix}predicate')} for configuration {prefix}predicate: predicates does "
                "not name it"
            )
        elif kind == REGEX_ROUTER:
            listed.errors += _problems_of_route(config, as_written, prefix, predicate)
        elif kind is not None and kind in OF_JSON_PARTS:
            listed.errors += _problems_of_json(config, as_written, prefix, kind)
        # A class that is missing or unknown is an error of its own.
        if kind is not None and kind not in SUPPORTED and kind.startswith(_PACKAGE):
            shown = kind if as_written.get(f"{prefix}type") == config.get(f"{prefix}type") else alias
            why = _OF_TIME if kind == TIMESTAMP_ROUTER else _OF_SCHEMAS
            listed.errors.append(
                f"Invalid value {listed.value} for configuration transforms: {shown.removeprefix(_PACKAGE)} can't be "
                f"applied here, {why}"
            )


def _problems_of_route(config: Config, as_written: Config, prefix: str, predicate: str | None) -> list[str]:
    """What a RegexRouter can't do here, beside what is wrong with single settings of it."""
    given = None if predicate is None else _class(config, f"predicates.{predicate}.type")
    if given in (HAS_HEADER, TOMBSTONE):
        return [
            f"Invalid value {as_written.get(f'{prefix}predicate')} for configuration {prefix}predicate: the topic is chosen "
            "before any record is known, so a RegexRouter takes no other predicate than TopicNameMatches"
        ]
    try:
        _replacement(config, prefix)
    except _WrongReplacement as error:
        name = f"{prefix}replacement"
        # The text shows parts of both settings.
        plain = all(as_written.get(prefix + each) == config.get(prefix + each) for each in ("regex", "replacement"))
        problem = error.problem if plain else "it does not fit the expression"
        return [f"Invalid value {as_written.get(name)} for configuration {name}: {problem}"]
    except ConfigError:
        pass  # an error of its own
    return []


def _problems_of_json(config: Config, as_written: Config, prefix: str, kind: str) -> list[str]:
    """What a transformation of JSON can't do here, beside what is wrong with single settings of it."""
    named = _class(as_written, f"{prefix}type") or "it"
    found = [
        f"Invalid value {java_text(as_written.get(f'{part}.converter'))} for configuration {part}.converter: "
        f"{named.removeprefix(_PACKAGE)} needs a {part} that is JSON: set {part}.converter={JSON_CONVERTER}, and "
        f"{part}.converter.schemas.enable=false if it has no schemas"
        for part in _NEEDS[OF_JSON_PARTS[kind]]
        if not is_json(config, part)
    ]
    reads: list[Callable[[], object]] = [partial(json_change, _json_name(kind), config, prefix)]
    reads += [partial(json_form, config, part) for part in _NEEDS[OF_JSON_PARTS[kind]] if is_json(config, part)]
    for read in reads:
        try:
            read()
        except WrongChange as error:
            plain = as_written.get(error.name) == config.get(error.name)
            found.append(f"Invalid {error.name}: {error.problem if plain else 'its value can not be used'}")
        except ConfigError:
            pass  # an error of its own
    return found


def is_json(config: Config, part: str) -> bool:
    """Whether keys or values (`part`) are declared to be JSON."""
    return _class(config, f"{part}.converter") == JSON_CONVERTER


def json_form(config: Config, part: str) -> JsonForm:
    """How the JsonConverter of keys or values reads and writes. ConfigError for settings that can't be used."""
    prefix = f"{part}.converter."
    given = {
        name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix) and text is not None
    }
    results = ConfigTable(*JSON_CONVERTER_KEYS).validate_all(given)
    for result in results.values():
        if result.errors:
            raise ConfigError(prefix + result.name, None, "its value is wrong")
    schemas = bool(results["schemas.enable"].parsed)
    if schemas and results["schema.content"].parsed:
        raise WrongChange(
            f"{prefix}schema.content",
            None,
            "the schema has to be in the records: leave it out, as only sink connectors have it",
        )
    return JsonForm(
        schemas,
        str(results["decimal.format"].parsed).upper() == "NUMERIC",
        bool(results["replace.null.with.default"].parsed),
    )


def json_parts(config: Config) -> frozenset[str]:
    """Of key and value those that the config declares as JSON, and that a transformation looks into."""
    return frozenset(part for part in looked_into(config) if is_json(config, part))


def looked_into(config: Config) -> frozenset[str]:
    """Of key and value those that a transformation looks into, whether they are declared as JSON or not."""
    parts: set[str] = set()
    for alias in parse(config.get("transforms"), LIST)[1] or ():
        of_part = OF_JSON_PARTS.get(_class(config, f"transforms.{alias}.type") or "")
        parts.update(() if of_part is None else _NEEDS[of_part])
    return frozenset(parts)


def _json_name(kind: str) -> str:
    return kind.removeprefix(_PACKAGE).partition("$")[0]


class _WrongReplacement(ConfigError):
    """The expression is right, and the replacement does not fit it."""


def _transformation(config: Config, alias: str) -> Transformation:
    prefix = f"transforms.{alias}."
    what: Step | JsonStep | Route
    kind = _class(config, f"{prefix}type")
    if kind == DROP_HEADERS:
        what = Step(Action.DROP_HEADERS, headers=_names(config, f"{prefix}headers"))
    elif kind == INSERT_HEADER:
        name, value = (_bytes(config, prefix + setting) for setting in ("header", "value.literal"))
        what = Step(Action.INSERT_HEADER, headers=(name,), value=value)
    elif kind == FILTER:
        what = Step(Action.FILTER)
    elif kind == REGEX_ROUTER:
        what = Route(_replacement(config, prefix), f"{prefix}regex")
    elif kind is not None and kind in OF_JSON_PARTS:
        part = OF_JSON_PARTS[kind]
        for each in _NEEDS[part]:
            if not is_json(config, each):
                raise ConfigError(f"{each}.converter", None, f"transformation {alias} needs a {each} that is JSON")
        of_key, of_value = (
            json_form(config, each) if each in _NEEDS[part] else PLAIN_JSON for each in ("key", "value")
        )
        what = JsonStep(alias, part, json_change(_json_name(kind), config, prefix), key=of_key, value=of_value)
    else:
        raise ConfigError(f"{prefix}type", config.get(f"{prefix}type"), "this transformation can't be applied here")
    predicate = config.get(f"{prefix}predicate")
    if predicate is None:
        return Transformation(what)
    return _under(config, predicate, what, negated=bool(_parsed(config, f"{prefix}negate", BOOLEAN)))


def _under(config: Config, predicate: str, what: Step | JsonStep | Route, *, negated: bool) -> Transformation:
    """The step or route for what a predicate takes."""
    prefix = f"predicates.{predicate}."
    kind = _class(config, f"{prefix}type")
    if kind == TOPIC_NAME:
        pattern = f"{prefix}pattern"
        return Transformation(what, TopicPredicate(_pattern(config, pattern), pattern, negated))
    if not isinstance(what, Route):
        what = replace(what, negated=negated)
        if kind == HAS_HEADER:
            name = _bytes(config, f"{prefix}name")
            return Transformation(replace(what, condition=Condition.HAS_HEADER, has=name))
        if kind == TOMBSTONE:
            return Transformation(replace(what, condition=Condition.IS_TOMBSTONE))
    raise ConfigError(f"{prefix}type", config.get(f"{prefix}type"), "this predicate can't be applied here")


def _replacement(config: Config, prefix: str) -> BoundedReplacement:
    name = f"{prefix}regex"
    # Java takes an expression that matches nothing but an empty name.
    regex, text = _text(config, name), _text(config, f"{prefix}replacement")
    _pattern(config, name)
    try:
        return BoundedReplacement(regex, text)
    except JavaRegexError as error:
        raise _WrongReplacement(f"{prefix}replacement", text, str(error)) from None


def _pattern(config: Config, name: str) -> BoundedPattern:
    try:
        return BoundedPattern(_text(config, name))
    except JavaRegexError as error:
        raise ConfigError(name, config.get(name), str(error)) from None


def _names(config: Config, name: str) -> tuple[bytes, ...]:
    found = _list(config, name)
    if not found:
        raise ConfigError(name, None, "it must name a header")
    return tuple(_encoded(name, each) for each in found)


def _list(config: Config, name: str) -> list[str]:
    return list(_parsed(config, name, LIST) or ())


def _class(config: Config, name: str) -> str | None:
    """None if there is no such setting, or no such class."""
    found = parse(config.get(name), CLASS)[1]
    return found if isinstance(found, str) else None


def _bytes(config: Config, name: str) -> bytes:
    return _encoded(name, _text(config, name))


def _text(config: Config, name: str) -> str:
    found = _parsed(config, name, STRING)
    if found is None:
        raise ConfigError(name, None, "it has to be set")
    return str(found)


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ConfigError(name, None, "it has characters that are no text: half of a surrogate pair") from None


def _parsed(config: Config, name: str, kind: Any) -> Any:
    problem, value = parse(config.get(name), kind)
    if problem is not None:
        raise ConfigError(name, config.get(name), problem)
    return value
