"""The transformations of a source connector: which of Kafka's can be applied to bytes, and what they do with a record.

Kafka's worker applies a chain to each record before it converts key, value and headers. Keys and values are bytes here, so
only transformations that do not look into them work. A predicate on the topic sees the remote topic, as in MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror_connect.connectors.config.table import ValidatedKey
from mirror_connect.connectors.config.values import BOOLEAN, CLASS, LIST, STRING, parse
from mirror_connect.connectors.record_steps import Action, Condition, Step, Steps
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern

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
    """One transformation of a chain. `topics`: its predicate's expression for remote topics; None: it has another one."""

    step: Step
    topics: BoundedPattern | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """The transformations of a config, in their order."""

    of_all: tuple[_Transformation, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.of_all)

    def steps(self, remote_topic: str) -> Steps:
        """What is done with the records of a remote topic. MatchTooSlow."""
        applied = (_for_topic(each, remote_topic) for each in self.of_all)
        return tuple(step for step in applied if step is not None)


def _for_topic(transformation: _Transformation, remote_topic: str) -> Step | None:
    step, topics = transformation.step, transformation.topics
    if topics is None:
        return step
    return None if topics.matches(remote_topic) == step.negated else replace(step, negated=False)


def chain_of(config: Config) -> Chain:
    """The chain of a valid config."""
    return Chain(tuple(_transformation(config, alias) for alias in _list(config, "transforms")))


def check_transforms(results: dict[str, ValidatedKey], config: Config, as_written: Config) -> None:
    """Adds an error for each transformation that can't be applied here, or whose predicate is not declared."""
    listed = results["transforms"]
    if listed.errors:
        return
    for alias in dict.fromkeys(listed.parsed or ()):
        setting = f"transforms.{alias}.predicate"
        predicate = config.get(setting)
        if predicate is not None and predicate not in (results["predicates"].parsed or ()):
            listed.errors.append(
                f"Invalid value {as_written.get(setting)} for configuration {setting}: predicates does not name it"
            )
        kind = _class(config, f"transforms.{alias}.type")
        if kind is None or kind in SUPPORTED:
            continue  # a missing or unknown class is an error of its own
        if kind.startswith(_PACKAGE):
            shown = (
                kind if as_written.get(f"transforms.{alias}.type") == config.get(f"transforms.{alias}.type") else alias
            )
            listed.errors.append(
                f"Invalid value {listed.value} for configuration transforms: {shown.removeprefix(_PACKAGE)} can't be "
                "applied here, as keys and values are copied as bytes. These can: DropHeaders, Filter, InsertHeader. "
                "To name copies, set replication.policy.class"
            )


def _transformation(config: Config, alias: str) -> _Transformation:
    prefix = f"transforms.{alias}."
    kind = _class(config, f"{prefix}type")
    if kind == DROP_HEADERS:
        step = Step(Action.DROP_HEADERS, headers=tuple(name.encode() for name in _list(config, f"{prefix}headers")))
    elif kind == INSERT_HEADER:
        name, value = (_text(config, prefix + setting) for setting in ("header", "value.literal"))
        step = Step(Action.INSERT_HEADER, headers=(name.encode(),), value=value.encode())
    else:
        step = Step(Action.FILTER)
    predicate = config.get(f"{prefix}predicate")
    return (
        _Transformation(step)
        if predicate is None
        else _under(config, predicate, step, _negated(config, f"{prefix}negate"))
    )


def _under(config: Config, predicate: str, step: Step, negated: bool) -> _Transformation:
    prefix = f"predicates.{predicate}."
    kind = _class(config, f"{prefix}type")
    step = replace(step, negated=negated)
    if kind == TOPIC_NAME:
        return _Transformation(step, BoundedPattern(_text(config, f"{prefix}pattern")))
    if kind == HAS_HEADER:
        return _Transformation(
            replace(step, condition=Condition.HAS_HEADER, has=_text(config, f"{prefix}name").encode())
        )
    return _Transformation(replace(step, condition=Condition.IS_TOMBSTONE))


def _list(config: Config, name: str) -> list[str]:
    return list(_parsed(config, name, LIST) or ())


def _class(config: Config, name: str) -> str | None:
    found = _parsed(config, name, CLASS)
    return found if isinstance(found, str) else None


def _negated(config: Config, name: str) -> bool:
    return bool(_parsed(config, name, BOOLEAN))


def _text(config: Config, name: str) -> str:
    return str(_parsed(config, name, STRING) or "")


def _parsed(config: Config, name: str, kind: Any) -> Any:
    return parse(config.get(name), kind)[1]
