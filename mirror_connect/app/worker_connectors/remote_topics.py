"""Remote topics: created with the source's partition count, grown when the source grows, never shrunk.

Rules of MirrorMaker 2 (docs/compatibility.md, "Topics and partitions"). If a topic can't be created, the user gets a line
about it, and the other topics are copied. The next refresh tries again; until then its partitions wait.

Topics that were just created or grown count before brokers report them (FreshTopics).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.admin.topic_admin import NewRemote, Refused, create_topics, grow_topics

ALREADY_THERE: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_CONFIG: Final = 40
POLICY_VIOLATION: Final = 44
# LogConfig.validateNames; a broker names one at a time.
_UNKNOWN_CONFIG: Final = re.compile(r"Unknown topic config name: ([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Decided:
    """What is to be done: topics to create, and topics to grow with their present and their new number of partitions.

    `existing`: topic → its partitions at present, 0 for none. `replication_factor`: of new topics.
    """

    new: Mapping[str, NewRemote]
    larger: Mapping[str, tuple[int, int]]
    existing: Mapping[str, int]
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What was done: topics `created` and `grown`, `refused` ones with one line each; `there`: topic → its partitions now.

    `left_out`: topic → configs that it was created without, because the target's brokers don't know them.
    """

    created: dict[str, NewRemote] = field(default_factory=dict)
    grown: dict[str, tuple[int, int]] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)

    @property
    def made(self) -> list[str]:
        """One line for each topic that was created or grown."""
        lines = []
        for topic, each in self.created.items():
            without = ", ".join(f"{name}={value}" for name, value in self.left_out.get(topic, {}).items())
            lines.append(
                f"created remote topic {topic} with {each.partitions} partition{'s' if each.partitions > 1 else ''}"
                + (f", without {without}: the brokers of the target know no such config" if without else "")
            )
        return lines + [
            f"grew remote topic {topic} from {before} to {now} partitions"
            for topic, (before, now) in self.grown.items()
        ]


def decide_changes(
    wanted: Mapping[str, int],
    existing: Mapping[str, int],
    replication_factor: int,
    configs: Mapping[str, Mapping[str, str]],
) -> Decided:
    """What is missing on the target. `wanted`: remote topic → partitions of its source topic.

    `configs`: remote topic → its configs. A topic without an entry is not created; the caller knows the reason.
    """
    new = {
        topic: NewRemote(partitions, replication_factor, configs[topic])
        for topic, partitions in sorted(wanted.items())
        if topic not in existing and topic in configs
    }
    larger = {
        topic: (existing[topic], partitions)
        for topic, partitions in sorted(wanted.items())
        if 0 < existing.get(topic, 0) < partitions
    }
    return Decided(new, larger, {topic: existing.get(topic, 0) for topic in wanted}, replication_factor)


def make_changes(target: ClusterAdmin, decided: Decided, *, validate_only: bool = False) -> Changes:
    """Creates and grows remote topics on `target`; blocking.

    `validate_only`: the brokers check everything and change nothing; the result is what would have been done.
    """
    changes = Changes(there=dict(decided.existing))
    # A missing right to one topic concerns only that topic; wrong credentials fail earlier.
    refused, left_out = _create(target, decided.new, validate_only=validate_only)
    totals = {topic: now for topic, (_, now) in decided.larger.items()}
    refused |= grow_topics(target, totals, validate_only=validate_only)
    for topic, partitions in _made_by_others(target, refused).items():
        # Brokers report a new topic a moment after the controller made it, and another client may have been quicker.
        changes.there[topic] = partitions
        del refused[topic]
    for topic, error in refused.items():
        configs = decided.new[topic].configs if topic in decided.new else {}
        changes.refused[topic] = f"{error}{_remedy(error, decided.replication_factor, configs)}"
    for topic, each in decided.new.items():
        if topic not in refused and not changes.there[topic]:
            changes.left_out.update({topic: left_out[topic]} if topic in left_out else {})
            kept = {name: value for name, value in each.configs.items() if name not in left_out.get(topic, {})}
            changes.created[topic] = replace(each, configs=kept)
            changes.there[topic] = each.partitions
    for topic, (before, now) in decided.larger.items():
        if topic not in refused:
            changes.grown[topic] = before, now
            changes.there[topic] = now
    return changes


def _made_by_others(target: ClusterAdmin, refused: Refused) -> dict[str, int]:
    """Topics that could not be created because they exist, and that the brokers report by now."""
    there = [topic for topic, error in refused.items() if isinstance(error, AdminError) and error.code == ALREADY_THERE]
    known = target.topics() if there else {}
    return {topic: known[topic] for topic in there if topic in known}


def _create(
    target: ClusterAdmin, new: Mapping[str, NewRemote], *, validate_only: bool
) -> tuple[dict[str, AdminError | NotAuthorized], dict[str, dict[str, str]]]:
    """The refused topics; and the configs that new topics don't have, because brokers of another release don't know them."""
    refused = dict(create_topics(target, new, validate_only=validate_only))
    left_out: dict[str, dict[str, str]] = {}
    while again := {topic: name for topic, error in refused.items() if (name := _unknown(error)) in new[topic].configs}:
        for topic, name in again.items():
            left_out.setdefault(topic, {})[name] = new[topic].configs[name]
        less = {
            topic: replace(
                new[topic], configs={n: v for n, v in new[topic].configs.items() if n not in left_out[topic]}
            )
            for topic in again
        }
        new = {**new, **less}
        refused = {topic: error for topic, error in refused.items() if topic not in less}
        refused |= create_topics(target, less, validate_only=validate_only)
    return refused, left_out


def _unknown(error: AdminError | NotAuthorized) -> str:
    """The config that a broker does not know, or empty for another error. No request lists the configs that it knows."""
    found = (
        _UNKNOWN_CONFIG.search(str(error)) if isinstance(error, AdminError) and error.code == INVALID_CONFIG else None
    )
    return found[1] if found else ""


def _remedy(error: AdminError | NotAuthorized, replication_factor: int, configs: Mapping[str, str]) -> str:
    """What the user can set. The broker's text usually names the wrong config. Copied configs are never secrets."""
    if isinstance(error, NotAuthorized):
        return ""
    if error.code == INVALID_REPLICATION_FACTOR:
        return f"; set replication.factor of the connector, {replication_factor}, to the number of brokers or less"
    if error.code not in (INVALID_CONFIG, POLICY_VIOLATION) or not configs:
        return ""
    names = set(re.findall(r"[\w-]+(?:\.[\w-]+)*", str(error)))
    named = {name: value for name, value in configs.items() if name in names} or configs
    shown = ", ".join(f"{name}={value}" for name, value in sorted(named.items()))
    return (
        f"; its source has {shown}: allow that on the target, add the name to config.properties.exclude of the connector, "
        "or create the topic by hand"
    )


# After this time the topic must have been deleted before any broker reported it.
FRESH_S: Final = 300.0


class FreshTopics:
    """Topics that were just created or grown, and that brokers don't report yet; for one thread.

    The controller answers before brokers know the change, with thousands of partitions many seconds before. A refresh in
    between would take the topics for absent, create them again, and revoke their partitions from running tasks.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Topic → partitions, and until when that counts.
        self._fresh: dict[str, tuple[int, float]] = {}

    def made(self, topics: Mapping[str, int]) -> None:
        """Adds topics with their present number of partitions."""
        until = self._clock() + FRESH_S
        self._fresh |= {topic: (partitions, until) for topic, partitions in topics.items()}

    def added_to(self, reported: Mapping[str, int]) -> dict[str, int]:
        """What the brokers report (topic → partitions), together with what they don't report yet."""
        now = self._clock()
        self._fresh = {
            topic: (partitions, until)
            for topic, (partitions, until) in self._fresh.items()
            if reported.get(topic, 0) < partitions and now < until
        }
        return {**reported, **{topic: partitions for topic, (partitions, _) in self._fresh.items()}}
