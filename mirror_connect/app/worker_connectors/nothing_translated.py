"""A checkpoint connector that translates nothing, told: which setting matches no group, and of how many."""

from __future__ import annotations

from mirror_connect.app.worker_connectors.matching_nothing import UselessFilter
from mirror_connect.app.worker_connectors.source_groups import SeenGroups
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.mirror.mirror_checkpoint import CheckpointSelection


def nothing_translated(settings: Settings, selection: CheckpointSelection, seen: SeenGroups) -> str | None:
    """A line, or None if there is a group to translate, or may be one. `seen`: already judged by `selection`."""
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
    left_out["having no position in a topic that is copied"] = len(matching) - sum(left_out.values())
    return groups.leaves_all_out(len(matching), left_out)
