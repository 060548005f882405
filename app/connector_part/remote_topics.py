"""Remote topics: created with the source's partition count, grown when the source grows, never shrunk.

Rules of MirrorMaker 2 (docs/compatibility.md, "Topics and partitions"). A topic that can't be created is a line for the
user and the others go on; it is tried again at the next round, and its partitions wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin

INVALID_REPLICATION_FACTOR: Final = 38
INVALID_CONFIG: Final = 40
POLICY_VIOLATION: Final = 44


@dataclass(frozen=True, slots=True)
class Changes:
    """What one round did: `made`, one line each; `refused`, topic → one line; `there`, topic → partitions it has now."""

    made: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)


def bring_up_to_date(
    target: ClusterAdmin,
    wanted: Mapping[str, int],
    existing: Mapping[str, int],
    replication_factor: int,
    configs: Mapping[str, Mapping[str, str]],
) -> Changes:
    """Creates and grows remote topics on `target`; blocking. `wanted`: remote topic → partitions of its source topic.

    `configs`: remote topic → what it is created with. One that isn't in it is not created, and its reason is known already.
    """
    changes = Changes()
    for topic, partitions in sorted(wanted.items()):
        changes.there[topic] = existing.get(topic, 0)
        try:
            if topic not in existing and topic not in configs:
                continue
            if topic not in existing:
                target.create_topic(topic, partitions, replication_factor, configs[topic])
                changes.made.append(f"created remote topic {topic} with {partitions} partitions")
            elif existing[topic] < partitions:
                target.create_partitions(topic, partitions)
                changes.made.append(f"grew remote topic {topic} from {existing[topic]} to {partitions} partitions")
            changes.there[topic] = max(partitions, existing.get(topic, 0))
        except (AdminError, NotAuthorized) as error:
            # A missing right to one topic is that topic's trouble; wrong credentials have been told before.
            changes.refused[topic] = f"{error}{_remedy(error, replication_factor, configs.get(topic, {}))}"
    return changes


def _remedy(error: AdminError | NotAuthorized, replication_factor: int, configs: Mapping[str, str]) -> str:
    """What to set; the broker's words name the config at fault as a rule. Configs that are copied are never secrets."""
    if isinstance(error, NotAuthorized):
        return ""
    if error.code == INVALID_REPLICATION_FACTOR:
        return f"; set replication.factor of the connector, which is {replication_factor}"
    if error.code not in (INVALID_CONFIG, POLICY_VIOLATION) or not configs:
        return ""
    names = set(re.findall(r"[\w-]+(?:\.[\w-]+)*", str(error)))
    named = {name: value for name, value in configs.items() if name in names} or configs
    told = ", ".join(f"{name}={value}" for name, value in sorted(named.items()))
    return (
        f"; its source has {told}: allow that on the target, add the name to config.properties.exclude of the connector, "
        "or create the topic by hand"
    )
