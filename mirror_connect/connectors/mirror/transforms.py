"""The transformations of a source connector: which of Kafka's can be applied to bytes, and what they do with a record.

Kafka's worker applies a chain to each record before it converts key, value and headers. Keys and values are bytes here, so
only transformations that do not look into them work. A predicate on the topic sees the remote topic, as in MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror_connect.connectors.config.alias_settings import MOST_ALIASES
from mirror_connect.connectors.config.table import ValidatedKey
from mirror_connect.connectors.config.values import BOOLEAN, CLASS, LIST, STRING, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.record_steps import Action, Condition, Step, Steps
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, MatchTooSlow
from mirror_connect.connectors.user_code.java_characters import JavaRegexError

_PACKAGE: Final = "org.apache.kafka.connect.transforms."
FILTER: Final = f"{_PACKAGE}Filter"
DROP_HEADERS: Final = f"{_PACKAGE}DropHeaders"
INSERT_HEADER: Final = f"{_PACKAGE}InsertHeader"
SUPPORTED: Final = (DROP_HEADERS, FILTER, INSERT_HEADER)
TOPIC_NAME: Final = f"{_PACKAGE}predicates.TopicNameMatches"
HAS_HEADER: Final = f"{_PACKAGE}predicates.HasHeaderKey"
TOMBSTONE: Final = f"{_PACKAGE}predicates.RecordIsTombstone"

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Transformation:
    """One transformation of a chain. `topics`: its predicate's expression for remote topics; None: it has another one.

    `setting`: the name of the expression's setting.
    """

    step: Step
    topics: BoundedPattern | None = None
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """The transformations of a config, in their order."""

    of_all: tuple[_Transformation, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.of_all)

    def judge(self, remote_topics: Iterable[str]) -> None:
        """Matches these names, before `steps` is asked for each of them. It may block for seconds. ConfigError."""
        names = list(remote_topics)
        for each in self.of_all:
            if each.topics is not None:
                try:
                    each.topics.judge(names)
                except MatchTooSlow as error:
                    raise ConfigError(each.setting, each.topics.java, str(error)) from None

    def steps(self, remote_topic: str) -> Steps:
        """What is done with the records of a remote topic that was judged."""
        applied = (_for_topic(each, remote_topic) for each in self.of_all)
        return tuple(step for step in applied if step is not None)


def _for_topic(transformation: _Transformation, remote_topic: str) -> Step | None:
    step, topics = transformation.step, transformation.topics
    if topics is None:
        return step
    return None if topics.matches(remote_topic) == step.negated else replace(step, negated=False)


def chain_of(config: Config) -> Chain:
    """The chain of a config. ConfigError if any of it is not as REST's validation wants it.

    A config may not have passed that: other workers store configs, too, and providers change their values. To guess would
    drop records, or copy what should have been dropped.
    """
    aliases = _list(config, "transforms")
    if len(aliases) > MOST_ALIASES:
        raise ConfigError("transforms", None, f"more than {MOST_ALIASES} transformations")
    return Chain(tuple(_transformation(config, alias) for alias in aliases))


def check_transforms(results: dict[str, ValidatedKey], config: Config, as_written: Config) -> None:
    """Adds an error for each transformation that can't be applied here, or whose predicate is not declared."""
    listed = results["transforms"]
    if listed.errors:
        return
    if len(listed.parsed or ()) > MOST_ALIASES:
        listed.errors.append(f"Invalid value for configuration transforms: more than {MOST_ALIASES} transformations")
        return
    for alias in dict.fromkeys(listed.parsed or ()):
        setting, typed = f"transforms.{alias}.predicate", f"transforms.{alias}.type"
        predicate = config.get(setting)
        if predicate is not None and predicate not in (results["predicates"].parsed or ()):
            listed.errors.append(
                f"Invalid value {as_written.get(setting)} for configuration {setting}: predicates does not name it"
            )
        kind = _class(config, typed)
        # A class that is missing or unknown is an error of its own.
        if kind is not None and kind not in SUPPORTED and kind.startswith(_PACKAGE):
            shown = kind if as_written.get(typed) == config.get(typed) else alias
            listed.errors.append(
                f"Invalid value {listed.value} for configuration transforms: {shown.removeprefix(_PACKAGE)} can't be "
                "applied here, as keys and values are copied as bytes. These can: DropHeaders, Filter, InsertHeader. "
                "To name copies, set replication.policy.class"
            )


def _transformation(config: Config, alias: str) -> _Transformation:
    prefix = f"transforms.{alias}."
    kind = _class(config, f"{prefix}type")
    if kind == DROP_HEADERS:
        step = Step(Action.DROP_HEADERS, headers=_names(config, f"{prefix}headers"))
    elif kind == INSERT_HEADER:
        name, value = (_bytes(config, prefix + setting) for setting in ("header", "value.literal"))
        step = Step(Action.INSERT_HEADER, headers=(name,), value=value)
    elif kind == FILTER:
        step = Step(Action.FILTER)
    else:
        raise ConfigError(f"{prefix}type", config.get(f"{prefix}type"), "this transformation can't be applied here")
    predicate = config.get(f"{prefix}predicate")
    if predicate is None:
        return _Transformation(step)
    return _under(config, predicate, replace(step, negated=bool(_parsed(config, f"{prefix}negate", BOOLEAN))))


def _under(config: Config, predicate: str, step: Step) -> _Transformation:
    """The step for the records that a predicate takes."""
    prefix = f"predicates.{predicate}."
    kind = _class(config, f"{prefix}type")
    if kind == TOPIC_NAME:
        return _Transformation(step, _pattern(config, f"{prefix}pattern"), f"{prefix}pattern")
    if kind == HAS_HEADER:
        return _Transformation(replace(step, condition=Condition.HAS_HEADER, has=_bytes(config, f"{prefix}name")))
    if kind == TOMBSTONE:
        return _Transformation(replace(step, condition=Condition.IS_TOMBSTONE))
    raise ConfigError(f"{prefix}type", config.get(f"{prefix}type"), "this predicate can't be applied here")


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
