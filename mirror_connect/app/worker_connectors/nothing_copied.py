"""A source connector that copies nothing, told: which setting matches no topic, and of how many."""

from __future__ import annotations

from collections.abc import Collection

from mirror_connect.app.worker_connectors.matching_nothing import UselessFilter
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.mirror.filters import TopicSelection


def nothing_copied(settings: Settings, selection: TopicSelection, topics: Collection[str]) -> str | None:
    """A line, or None if there is a topic to copy. `topics`: all of the source, already judged by `selection`.

    Heartbeats are copied whatever `topics` says: they alone are no sign that it is right, unless it is empty.
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
