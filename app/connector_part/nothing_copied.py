"""A source connector that copies nothing, told: which setting matches no topic, and of how many."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mirror_connect.connectors.bounded_match import shortened
from mirror_connect.connectors.config_table import Settings
from mirror_connect.connectors.filters import TopicSelection
from mirror_connect.connectors.user_class import is_user_class

_LONGEST: Final = 200


def nothing_copied(settings: Settings, selection: TopicSelection, topics: Collection[str]) -> str | None:
    """A line, or None if there is a topic to copy. `topics`: all of the source, already judged by `selection`.

    Heartbeats are copied whatever `topics` says: they alone are no sign that it is right, unless it is empty.
    """
    policy, entries = selection.policy, settings.texts("topics")
    theirs = [topic for topic in topics if selection.topics.matches(topic)]
    if any(selection.should_replicate(topic) for topic in theirs):
        return None
    heartbeats = any(selection.should_replicate(topic) for topic in topics)
    only = "only heartbeats are copied" if heartbeats else "nothing is copied"
    cluster = f"source cluster {settings.text('source.cluster.alias')}"
    filter_class = settings.originals.get("topic.filter.class")
    if is_user_class(filter_class):
        named = f"topic.filter.class={filter_class}"
    elif entries:
        named = f"topics={shortened(','.join(entries), _LONGEST)}"
    else:
        return None if heartbeats else "topics is empty, so nothing is copied: give it names or expressions"
    if not topics:
        return f"{cluster} has no topic that this login may see, so {only}"
    count = f"{len(topics)} topic{'s' if len(topics) > 1 else ''}"
    if not theirs:
        hint = "" if is_user_class(filter_class) else "; names and expressions stand for whole topic names"
        return f"{named} matches none of the {count} of {cluster}, so {only}{hint}"
    left_out = {
        "topics.exclude": sum(1 for topic in theirs if selection.excluded.matches(topic)),
        "being internal": sum(1 for topic in theirs if policy.is_internal(topic)),
        f"having come from {selection.target_alias}": sum(
            1 for topic in theirs if policy.is_cycle(topic, selection.target_alias)
        ),
    }
    why = ", ".join(f"{number} by {reason}" for reason, number in left_out.items() if number)
    return f"{named} matches {len(theirs)} of the {count} of {cluster}, but all of them are left out ({why}), so {only}"
