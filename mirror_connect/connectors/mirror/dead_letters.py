"""The dead letter topic of a source connector: its settings, which are those of Kafka's sinks, and what they must not be.

In Kafka only sink connectors have one. Here it is on the target cluster, where the copies are. So it holds there what
transformations would have masked or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    MEDIUM,
    SHORT,
    STRING,
    ConfigTable,
    Key,
    Settings,
    ValidatedKey,
)
from mirror_connect.connectors.config.values import CLASS, LIST, parse
from mirror_connect.connectors.mirror.transform_sql import OF_STATEMENTS
from mirror_connect.connectors.records.heartbeats import HEARTBEATS_TOPIC
from mirror_connect.connectors.replication_policy import is_topic_name

OF_DEAD_LETTERS: Final = "errors.deadletterqueue."
TOLERANCE: Final = "errors.tolerance"
TOPIC: Final = f"{OF_DEAD_LETTERS}topic.name"
REPLICAS: Final = f"{OF_DEAD_LETTERS}topic.replication.factor"
CONTEXT: Final = f"{OF_DEAD_LETTERS}context.headers.enable"
# fmt: off
DEAD_LETTER_KEYS: Final = ConfigTable(
    Key(TOPIC, STRING, "", MEDIUM,
        "The topic on the target that gets records which can't be transformed, as the source has them: nothing in them is "
        "masked. With errors.tolerance=all. Not given: such records are skipped."),
    Key(REPLICAS, SHORT, 3, MEDIUM,
        "Replication factor of that topic if the connector creates it; -1: the target brokers' default."),
    Key(CONTEXT, BOOLEAN, False, MEDIUM,
        "Whether these records get headers that say where they come from and what is wrong. Their names begin with "
        "__connect.errors."),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """`replicas`: if it is created. `context`: whether records get headers about the error."""

    name: str
    replicas: int
    context: bool


def dead_letter_topic(settings: Settings) -> DeadLetterTopic | None:
    """That of a source connector; None if it has none, or needs none."""
    name = settings.text(TOPIC)
    if not name or settings.text(TOLERANCE) != "all" or not _transforms(settings.originals):
        return None
    return DeadLetterTopic(name, settings.integer(REPLICAS), settings.boolean(CONTEXT))


def check_dead_letters(
    results: Mapping[str, ValidatedKey], config: Mapping[str, str | None], as_written: Mapping[str, str | None]
) -> None:
    """Adds an error for a topic that can't be, or that others trust."""
    found = results.get(TOPIC)
    if found is None or found.errors or not found.parsed:
        return
    name = str(found.parsed)
    problem = None
    if not is_topic_name(name):
        problem = "no topic can have this name: it has letters, digits, dots, underscores and hyphens, 249 at most"
    elif name.startswith("__") or name.endswith((".internal", "-internal")) or name == HEARTBEATS_TOPIC:
        problem = "it is an internal topic, whose records are trusted: give the topic a name of its own"
    if problem is not None:
        found.errors.append(f"Invalid value {as_written.get(TOPIC)} for configuration {TOPIC}: {problem}")


@dataclass(frozen=True, slots=True)
class IdleLetters:
    """Settings of a dead letter topic that have no effect: `why`, as half a sentence, and what to do, as a whole one."""

    names: tuple[str, ...]
    why: str
    advice: str


def idle_dead_letters(config: Mapping[str, str | None], flow: str = "") -> IdleLetters | None:
    """Of a source connector; None if there are none. `flow`: as `A->B`, whose settings are named as in mm2.properties."""
    prefix = f"{flow}." if flow else ""
    names = tuple(sorted(name for name in (TOPIC, REPLICAS, CONTEXT) if name in config))
    if not names:
        return None
    if not (config.get(TOPIC) or "").strip():
        return IdleLetters(names, f"{prefix}{TOPIC} is not set", f"Set {prefix}{TOPIC}, or leave it out.")
    if (config.get(TOLERANCE) or "none").strip() != "all":
        return IdleLetters(names, f"{prefix}{TOLERANCE} is not all", f"Set {prefix}{TOLERANCE}=all, or leave it out.")
    if not _transforms(config):
        return IdleLetters(names, f"{flow or 'the connector'} has no transformations", "Leave it out.")
    return None


def dead_letter_notices(config: Mapping[str, str]) -> Iterator[str]:
    """What a user should know about these settings."""
    if (idle := idle_dead_letters(config)) is not None:
        yield f"Without effect, as {idle.why}: {', '.join(idle.names)}"
    elif TOPIC in config:
        name = config[TOPIC].strip()
        yield (
            f"Topic {name} on the target gets records that can't be transformed, as the source has them. Nothing is masked "
            "or left out in them. Let few users read that topic"
        )


def transformation_classes(config: Mapping[str, str]) -> dict[str, str]:
    """Alias → class of the transformations of a valid config."""
    found = {}
    for alias in parse(config.get("transforms"), LIST)[1] or ():
        name = parse(config.get(f"transforms.{alias}.type"), CLASS)[1]
        found[str(alias)] = name if isinstance(name, str) else str(alias)
    return found


def _transforms(config: Mapping[str, str | None]) -> bool:
    return bool((config.get("transforms") or "").strip()) or any(name.startswith(OF_STATEMENTS) for name in config)
