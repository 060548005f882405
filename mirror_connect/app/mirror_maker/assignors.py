"""How a consumer group's leader shares partitions among the members, by Java's range and roundrobin assignors (3.9).

A group may have Java members, and one of them may lead after this one. So each assignor gives what Java's gives to members
without `group.instance.id`. Java sorts those with one first. JoinGroup shows it to a leader since v5; it is not read here.
Racks are left out: Java considers them only if members have client.rack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import Final

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.partitions import TopicPartition

# Member id → its topics; topic → its number of partitions.
Subscriptions = Mapping[str, frozenset[str]]
Assignments = dict[str, list[TopicPartition]]
Assignor = Callable[[Subscriptions, Mapping[str, int]], Assignments]

SETTING: Final = "partition.assignment.strategy"
_PACKAGE: Final = "org.apache.kafka.clients.consumer."


def assign_ranges(subscriptions: Subscriptions, partitions: Mapping[str, int]) -> Assignments:
    """Of each topic, consecutive partitions for each member; the first members get one more if they don't divide."""
    assigned: Assignments = {member: [] for member in subscriptions}
    for topic in sorted(_topics(subscriptions, partitions)):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        each, more = divmod(partitions[topic], len(members))
        start = 0
        for number, member in enumerate(members):
            end = start + each + (number < more)
            assigned[member] += [TopicPartition(topic, partition) for partition in range(start, end)]
            start = end
    return assigned


def assign_in_turn(subscriptions: Subscriptions, partitions: Mapping[str, int]) -> Assignments:
    """All partitions of all topics in turn, each to the next member that has subscribed its topic."""
    assigned: Assignments = {member: [] for member in subscriptions}
    turns = cycle(sorted(subscriptions))
    for topic in sorted(_topics(subscriptions, partitions)):
        for partition in range(partitions[topic]):
            member = next(each for each in turns if topic in subscriptions[each])
            assigned[member].append(TopicPartition(topic, partition))
    return assigned


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": assign_ranges, "roundrobin": assign_in_turn}
_BY_CLASS: Final = {f"{_PACKAGE}RangeAssignor": "range", f"{_PACKAGE}RoundRobinAssignor": "roundrobin"}


def configured_assignors(setting: str | None) -> tuple[list[str], list[str]]:
    """The names of assignors in the order of partition.assignment.strategy, and the classes that are left out.

    Without the setting: range, as MirrorMaker 1 has it. ConfigError if none is left.
    """
    if setting is None:
        return ["range"], []
    classes = [each.strip() for each in setting.split(",") if each.strip()]
    names = [_BY_CLASS.get(each, each if each in ASSIGNORS else "") for each in classes]
    found = list(dict.fromkeys(filter(None, names)))
    if not found:
        known = ", ".join(_BY_CLASS)
        raise ConfigError(SETTING, setting, f"at least one of its assignors has to be one of {known}")
    return found, [each for each, name in zip(classes, names, strict=True) if not name]


def _topics(subscriptions: Subscriptions, partitions: Mapping[str, int]) -> Iterable[str]:
    return frozenset[str]().union(*subscriptions.values()) & partitions.keys()
