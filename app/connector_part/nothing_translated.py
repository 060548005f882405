"""A checkpoint connector that translates nothing, told: which setting matches no group, and of how many."""

from __future__ import annotations

from typing import Final

from mirror_connect.app.connector_part.source_groups import SeenGroups
from mirror_connect.connectors.bounded_match import shortened
from mirror_connect.connectors.config_table import Settings
from mirror_connect.connectors.mirror_checkpoint import CheckpointSelection
from mirror_connect.connectors.user_class import is_user_class

_LONGEST: Final = 200


def nothing_translated(settings: Settings, selection: CheckpointSelection, seen: SeenGroups) -> str | None:
    """A line, or None if there is a group to translate, or may be one. `seen`: already judged by `selection`."""
    if seen.wanted or seen.unreadable:
        return None
    cluster = f"source cluster {settings.text('source.cluster.alias')}"
    if not seen.listed:
        return f"{cluster} has no group that this login may see, so nothing is translated"
    filter_class = settings.originals.get("group.filter.class")
    if is_user_class(filter_class):
        named, hint = f"group.filter.class={filter_class}", ""
    else:
        entries = settings.texts("groups")
        if not entries:
            return "groups is empty, so nothing is translated: give it names or expressions"
        named = f"groups={shortened(','.join(entries), _LONGEST)}"
        hint = "; names and expressions stand for whole group names"
    count = f"{len(seen.listed)} group{'s' if len(seen.listed) > 1 else ''}"
    matching = [group for group in seen.listed if selection.groups.matches(group)]
    if not matching:
        return f"{named} matches none of the {count} of {cluster}, so nothing is translated{hint}"
    left_out = {
        "groups.exclude": sum(1 for group in matching if not selection.accepts_group(group)),
        "being no consumer group": sum(1 for group in matching if group in seen.untranslatable),
    }
    left_out["having no position in a topic that is copied"] = len(matching) - sum(left_out.values())
    why = ", ".join(f"{number} by {reason}" for reason, number in left_out.items() if number)
    return (
        f"{named} matches {len(matching)} of the {count} of {cluster}, but all are left out ({why}): none is translated"
    )
