"""The checkpoint connector: translates the offsets of consumer groups and, if configured, commits them on the target.

Declares its settings, the rules across them, the selection of groups and the split into tasks.
spark_jobs/tasks/mirror_checkpoint.py reads and writes.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    HIGH,
    LIST,
    LONG,
    LOW,
    SHORT,
    STRING,
    ConfigTable,
    Key,
    Settings,
    ValidatedKey,
)
from mirror_connect.connectors.config.validators import distinct, one_of, stands_for
from mirror_connect.connectors.config.values import parse
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.mirror.checks import (
    check_expressions,
    check_offset,
    check_partition_number,
    check_text,
    idle_transforms,
    refuse_transforms,
    without_transforms,
)
from mirror_connect.connectors.mirror.filters import (
    GROUPS_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    NameFilter,
    Names,
    user_names,
)
from mirror_connect.connectors.mirror.settings import (
    METRIC_NAMES_KEY,
    MIRROR_KEYS,
    mirror_warnings,
)
from mirror_connect.connectors.user_code.known_classes import DEFAULT_GROUP_FILTER, DEFAULT_TOPIC_FILTER
from mirror_connect.connectors.user_code.user_class import name_problem

# Without one of these there is nothing to write. Java compares the words as written, so `FALSE` counts as true.
_NEEDED: Final = ("emit.checkpoints.enabled", "emit.offset-syncs.enabled")
CHECKPOINT_TASK_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorCheckpointTask"
_EXACT_GROUPS: Final = "task.assigned.groups.json"

# fmt: off
KEYS: Final = MIRROR_KEYS + ConfigTable(
    Key("consumer.poll.timeout.ms", LONG, 1000, LOW, "No effect: a task wakes when its next interval begins."),
    Key("groups", LIST, GROUPS_DEFAULT, HIGH,
        "Consumer groups to translate: names and regular expressions, whole names only.", validator=distinct()),
    Key("groups.exclude", LIST, GROUPS_EXCLUDE_DEFAULT, HIGH,
        "Consumer groups not to translate; wins over groups.", validator=distinct()),
    Key("group.filter.class", CLASS, DEFAULT_GROUP_FILTER, LOW,
        "The class that decides which groups are translated; also python:package.module:Class.",
        validator=stands_for("GroupFilter"), foreign=partial(name_problem, interface="GroupFilter")),
    Key("refresh.groups.enabled", BOOLEAN, True, LOW, "Whether to look for new and vanished groups regularly."),
    Key("refresh.groups.interval.seconds", LONG, 600, LOW, "Seconds between two searches for groups."),
    Key("emit.checkpoints.enabled", BOOLEAN, True, LOW,
        "Whether checkpoints are written. This connector does nothing else."),
    Key("emit.checkpoints.interval.seconds", LONG, 60, LOW, "Seconds between two writes of checkpoints."),
    Key("sync.group.offsets.enabled", BOOLEAN, False, LOW,
        "Whether translated offsets are committed for groups that are idle on the target."),
    Key("sync.group.offsets.interval.seconds", LONG, 60, LOW, "Seconds between two commits of translated offsets."),
    Key("checkpoints.topic.replication.factor", SHORT, 3, LOW,
        "Replication factor of the checkpoints topic; lower if there are fewer brokers."),
    Key("offset-syncs.topic.location", STRING, "source", LOW,
        "Cluster that holds the offset-syncs topic. Use the same value as for the source connector.",
        validator=one_of("source", "target")),
    Key("topic.filter.class", CLASS, DEFAULT_TOPIC_FILTER, LOW,
        "The class that decides for which topics offsets are translated, by topics and topics.exclude as in the source "
        "connector; also python:package.module:Class.",
        validator=stands_for("TopicFilter"), foreign=partial(name_problem, interface="TopicFilter")),
    METRIC_NAMES_KEY,
)
# fmt: on


class MirrorCheckpoint(ConnectorDefinition):
    """MirrorCheckpointConnector."""

    class_name = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    task_class = CHECKPOINT_TASK_CLASS
    light = True
    keys: ClassVar[ConfigTable] = KEYS

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
        unresolved: Mapping[str, str],
    ) -> None:
        """MirrorCheckpointConfig.validate. Also refuses settings that would fail or be ignored silently later."""
        _check_emission(results, config)
        check_expressions(results, config, as_written, ("groups", "groups.exclude", "topics", "topics.exclude"))
        refuse_transforms(results)

    def of_flow(self, config: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """See ConnectorDefinition. A flow's transformations are those of the records that it copies."""
        return without_transforms(config)

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """See ConnectorDefinition: as MirrorCheckpointConnector.alterOffsets."""
        check_text(partition, "group")
        check_text(partition, "topic")
        check_partition_number(partition)
        check_offset(partition, offset, only_zero=True)

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """Lines about settings without effect."""
        return [*mirror_warnings(config), *idle_transforms(config)]


@dataclass(frozen=True, slots=True)
class CheckpointSelection:
    """Selects groups, and the topics of their offsets, by the two filters. Internal topics and cycles have no rule here."""

    groups: Names
    groups_excluded: Names
    topics: Names
    topics_excluded: Names

    def judge_groups(self, groups: Collection[str]) -> None:
        """Decides for many groups at once, before the other methods are called. ConfigError for a slow expression."""
        self.groups.judge(groups)
        self.groups_excluded.judge(groups)

    def judge_topics(self, topics: Collection[str]) -> None:
        """The same for topics."""
        self.topics.judge(topics)
        self.topics_excluded.judge(topics)

    def accepts_group(self, group: str) -> bool:
        """DefaultGroupFilter.shouldReplicateGroup."""
        return self.groups.matches(group) and not self.groups_excluded.matches(group)

    def accepts_topic(self, topic: str) -> bool:
        """DefaultTopicFilter.shouldReplicateTopic."""
        return self.topics.matches(topic) and not self.topics_excluded.matches(topic)

    def wants(self, group: str, committed: Sequence[str]) -> bool:
        """Whether a group with committed offsets in these topics is translated: one accepted topic is enough."""
        return self.accepts_group(group) and any(map(self.accepts_topic, committed))


def checkpoint_selection(settings: Settings) -> CheckpointSelection:
    """The selection of a config. ConfigError for a broken expression. It reads `topics`, but does not declare it."""
    of_groups = user_names("group.filter.class", settings.originals)
    of_topics = user_names("topic.filter.class", settings.originals)

    def compiled(name: str, entries: list[str], *, unless: object) -> NameFilter:
        return NameFilter(None) if unless else NameFilter.compile(name, entries)

    return CheckpointSelection(
        of_groups or compiled("groups", settings.texts("groups"), unless=None),
        compiled("groups.exclude", settings.texts("groups.exclude"), unless=of_groups),
        of_topics or compiled("topics", _entries(settings, "topics", TOPICS_DEFAULT), unless=None),
        compiled("topics.exclude", _entries(settings, "topics.exclude", TOPICS_EXCLUDE_DEFAULT), unless=of_topics),
    )


def is_active(settings: Settings) -> bool:
    """Whether the connector has any tasks."""
    return settings.boolean("enabled") and settings.boolean("emit.checkpoints.enabled")


def emission_interval_s(settings: Settings) -> float:
    """Seconds between two writes of checkpoints, at least 1. MirrorMaker would not pause at 0 or less."""
    return float(max(1, settings.integer("emit.checkpoints.interval.seconds")))


def sync_interval_s(settings: Settings) -> float | None:
    """Seconds between two syncs of groups; None: groups are not synced."""
    if not settings.boolean("sync.group.offsets.enabled"):
        return None
    return float(max(1, settings.integer("sync.group.offsets.interval.seconds")))


def assign_groups(groups: Sequence[str], max_tasks: int) -> list[list[str]]:
    """Assigns groups in contiguous chunks as MirrorMaker does, larger chunks first. Without groups there are no tasks."""
    tasks = min(max_tasks, len(groups))
    size, larger = divmod(len(groups), tasks) if tasks else (0, 0)
    bounds = [task * size + min(task, larger) for task in range(tasks + 1)]
    return [list(groups[begin:end]) for begin, end in pairwise(bounds)]


def task_configs(config: Mapping[str, str], groups: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """One config for each task.

    MirrorMaker joins the groups by commas and trims the names it reads. So it loses a name with a comma, or a space at an
    end. In that case another setting, which Java ignores, has the exact list.
    """
    configs = []
    for index, assigned in enumerate(groups):
        joined = ",".join(assigned)
        exact = {} if parse_assigned_groups(joined) == list(assigned) else {_EXACT_GROUPS: json.dumps(list(assigned))}
        configs.append(
            {
                **config,
                "task.class": CHECKPOINT_TASK_CLASS,
                "task.index": str(index),
                "task.assigned.groups": joined,
                **exact,
            }
        )
    return configs


def assigned_groups(task_config: Mapping[str, str]) -> list[str]:
    """The groups of a task, by its config; none for a task of another connector."""
    exact = task_config.get(_EXACT_GROUPS)
    if exact is not None:
        with contextlib.suppress(ValueError, RecursionError):
            groups = json.loads(exact)
            if isinstance(groups, list) and all(isinstance(group, str) for group in groups):
                return groups
        # Not from this product: the connector assigns its groups again.
        return []
    return parse_assigned_groups(task_config.get("task.assigned.groups", ""))


def parse_assigned_groups(text: str) -> list[str]:
    """`task.assigned.groups` as Java reads a list."""
    return [group for group in (each.strip() for each in text.split(",")) if group]


def _entries(settings: Settings, name: str, default: list[str]) -> list[str]:
    given = settings.originals.get(name)
    return default if given is None else list(parse(given, LIST)[1])


def without_work(config: Mapping[str, str | None]) -> str | None:
    """The property by which the connector has nothing to do, for which Kafka refuses it; None if it has something to do."""
    if config.get("enabled") == "false":
        return None
    return next((name for name in _NEEDED if config.get(name) == "false"), None)


def _check_emission(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # Java compares the words as written, so `FALSE` passes, with the same consequences.
    if config.get("enabled") == "false":
        return
    if config.get("emit.checkpoints.enabled") == "false":
        results["emit.checkpoints.enabled"].errors.append(
            "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false"
        )
    if config.get("emit.offset-syncs.enabled") == "false":
        unknown = ValidatedKey("emit.offset-syncs.enabled", None, None, None, [])
        results.setdefault(unknown.name, unknown).errors.append(
            "MirrorCheckpointConnector can't run without offset syncs"
        )
