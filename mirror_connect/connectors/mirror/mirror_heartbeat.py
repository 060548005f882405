"""The heartbeat connector: its records on the target show that the link is alive.

Declares its settings and the split into tasks. spark_jobs/tasks/mirror_heartbeat.py writes the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    LONG,
    LOW,
    SHORT,
    ConfigTable,
    Key,
    Settings,
    ValidatedKey,
)
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.mirror.checks import (
    check_offset,
    check_text,
    idle_transforms,
    refuse_transforms,
    without_transforms,
)
from mirror_connect.connectors.mirror.settings import (
    MIRROR_KEYS,
    mirror_warnings,
)

HEARTBEAT_TASK_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"

# fmt: off
KEYS: Final = MIRROR_KEYS + ConfigTable(
    Key("emit.heartbeats.enabled", BOOLEAN, True, LOW, "Whether heartbeats are written to the target cluster."),
    Key("emit.heartbeats.interval.seconds", LONG, 1, LOW, "Seconds between two heartbeats."),
    Key("heartbeats.topic.replication.factor", SHORT, 3, LOW,
        "Replication factor of the heartbeats topic; lower if there are fewer brokers."),
)
# fmt: on


class MirrorHeartbeat(ConnectorDefinition):
    """MirrorHeartbeatConnector."""

    class_name = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    task_class = HEARTBEAT_TASK_CLASS
    light = True
    keys: ClassVar[ConfigTable] = KEYS

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
        unresolved: Mapping[str, str],
    ) -> None:
        """Refuses settings that would fail or be ignored silently later. Java has no rules here."""
        refuse_transforms(results)

    def of_flow(self, config: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """See ConnectorDefinition. A flow's transformations are those of the records that it copies."""
        return without_transforms(config)

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """See ConnectorDefinition: as MirrorHeartbeatConnector.alterOffsets."""
        check_text(partition, "sourceClusterAlias")
        check_text(partition, "targetClusterAlias")
        check_offset(partition, offset, only_zero=True)

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """Lines about settings without effect."""
        return [*mirror_warnings(config), *idle_transforms(config)]


def task_configs(config: Mapping[str, str], settings: Settings) -> list[dict[str, str]]:
    """One task, or none with emit.heartbeats.enabled=false. `enabled` has no effect here, as in Java.

    Never more: a second task would not share the load but double the heartbeats.
    """
    return [{**config, "task.class": HEARTBEAT_TASK_CLASS}] if settings.boolean("emit.heartbeats.enabled") else []


def beat_interval_s(settings: Settings) -> float:
    """Seconds between two heartbeats, at least 1. MirrorMaker would not pause at 0 or less."""
    return float(max(1, settings.integer("emit.heartbeats.interval.seconds")))
