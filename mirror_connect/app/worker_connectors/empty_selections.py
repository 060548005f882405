"""Why a connector selects nothing to copy or translate: which setting accepts none of how many topics or groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.worker_connectors.source_groups import SeenGroups
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.filters import TopicSelection
from mirror_connect.connectors.mirror.mirror_checkpoint import CheckpointSelection
from mirror_connect.connectors.user_code.bounded_match import shortened
from mirror_connect.connectors.user_code.user_class import is_user_class

_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class UselessFilter:
    """A filter as set, and the number of candidates. `noun`: their kind ("topic"); `so`: the consequence, for the line."""

    named: str
    hint: str
    noun: str
    count: int
    cluster: str
    so: str

    @classmethod
    def of(cls, settings: Settings, noun: str, count: int, so: str) -> UselessFilter | None:
        """From Kafka's settings; None if the list is empty and no class of the user's decides."""
        setting, class_setting = f"{noun}s", f"{noun}.filter.class"
        cluster = f"source cluster {settings.text('source.cluster.alias')}"
        filter_class = settings.originals.get(class_setting)
        if is_user_class(filter_class):
            return cls(f"{class_setting}={filter_class}", "", noun, count, cluster, so)
        entries = settings.texts(setting)
        if not entries:
            return None
        hint = f"; names and expressions stand for whole {noun} names"
        return cls(f"{setting}={shortened(','.join(entries), _LONGEST)}", hint, noun, count, cluster, so)

    def matches_none(self) -> str:
        """The line if the filter matches nothing, or if there is nothing to match."""
        if not self.count:
            return f"{self.cluster} has no {self.noun} that this login may see, so {self.so}"
        return f"{self.named} matches none of the {self._counted} of {self.cluster}, so {self.so}{self.hint}"

    def leaves_all_out(self, matching: int, left_out: Mapping[str, int]) -> str:
        """The line if all matches are left out. `left_out`: reason → how many."""
        why = ", ".join(f"{number} by {reason}" for reason, number in left_out.items() if number)
        matches = f"{self.named} matches {matching} of the {self._counted} of {self.cluster}"
        return f"{matches}, but all of them are left out ({why}), so {self.so}"

    @property
    def _counted(self) -> str:
        return f"{self.count} {self.noun}{'s' if self.count > 1 else ''}"


def nothing_copied(settings: Settings, selection: TopicSelection, topics: Collection[str]) -> str | None:
    """A line, or None if there is a topic to copy. `topics`: all of the source, already judged by `selection`.

    Heartbeats are copied whatever `topics` is, so they do not show that it is right, unless it is empty.
    """
    policy = selection.policy
    theirs = [topic for topic in topics if selection.topics.matches(topic)]
    if any(selection.should_replicate(topic) for topic in theirs):
        return None
    heartbeats = any(selection.should_replicate(topic) for topic in topics)
    only = "only heartbeats are copied" if heartbeats else "nothing is copied"
    wanted = UselessFilter.of(settings, "topic", len(topics), only)
    if wanted is None:
        return None if heartbeats else "topics is empty, so nothing is copied: give it names or expressions"
    if not theirs:
        return wanted.matches_none()
    left_out = {
        "topics.exclude": sum(1 for topic in theirs if selection.excluded.matches(topic)),
        "being internal": sum(1 for topic in theirs if policy.is_internal(topic)),
        f"having come from {selection.target_alias}": sum(
            1 for topic in theirs if policy.is_cycle(topic, selection.target_alias)
        ),
    }
    return wanted.leaves_all_out(len(theirs), left_out)


def nothing_translated(settings: Settings, selection: CheckpointSelection, seen: SeenGroups) -> str | None:
    """A line, or None if there is, or may be, a group to translate. `seen`: already judged by `selection`."""
    if seen.wanted or seen.unreadable:
        return None
    so = "nothing is translated"
    groups = UselessFilter.of(settings, "group", len(seen.listed), so)
    if groups is None:
        return f"groups is empty, so {so}: give it names or expressions"
    matching = [group for group in seen.listed if selection.groups.matches(group)]
    if not matching:
        return groups.matches_none()
    left_out = {
        "groups.exclude": sum(1 for group in matching if not selection.accepts_group(group)),
        "being no consumer group": sum(1 for group in matching if group in seen.untranslatable),
    }
    left_out["having no offset in a topic that is copied"] = len(matching) - sum(left_out.values())
    return groups.leaves_all_out(len(matching), left_out)
