"""The heartbeat connector: proof, on the target cluster, that the link is alive.

Declares its settings and the split into tasks. Writing the records is spark_jobs/tasks/mirror_heartbeat.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.config_table import (
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
from mirror_connect.connectors.mirror.mirror_checks import refuse_transforms
from mirror_connect.connectors.mirror.mirror_settings import (
    MIRROR_KEYS,
    mirror_warnings,
)
from mirror_connect.connectors.mirror.offset_checks import check_offset, check_text

HEARTBEAT_TASK_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"

# fmt: off
KEYS: Final = MIRROR_KEYS + ConfigTable(
    Key("emit.heartbeats.enabled", BOOLEAN, True, LOW, "Whether heartbeats are written to the target cluster."),
    Key("emit.heartbeats.interval.seconds", LONG, 1, LOW, "Seconds between two heartbeats."),
    Key("heartbeats.topic.replication.factor", SHORT, 3, LOW,
        "Replication factor of the heartbeats topic; fewer where there are fewer brokers."),
)
# fmt: on


class MirrorHeartbeat(ConnectorDefinition):
    """MirrorHeartbeatConnector."""

    class_name = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    task_class = HEARTBEAT_TASK_CLASS
    keys: ClassVar[ConfigTable] = KEYS

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
    ) -> None:
        """Refusals of what would fail or be ignored silently later; Java has no rules here."""
        refuse_transforms(results)

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """See ConnectorDefinition: as MirrorHeartbeatConnector.alterOffsets."""
        check_text(partition, "sourceClusterAlias")
        check_text(partition, "targetClusterAlias")
        check_offset(partition, offset, only_zero=True)

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """What has no effect on a connector that writes bytes of its own."""
        return mirror_warnings(config)


def task_configs(config: Mapping[str, str], settings: Settings) -> list[dict[str, str]]:
    """One task, or none with emit.heartbeats.enabled=false. `enabled` means nothing here, as in Java.

    One at most: a second task would not share the load, it would beat twice.
    """
    return [{**config, "task.class": HEARTBEAT_TASK_CLASS}] if settings.boolean("emit.heartbeats.enabled") else []


def beat_interval_s(settings: Settings) -> float:
    """Seconds between two heartbeats. MirrorMaker would beat without a pause if told 0 or less."""
    return float(max(1, settings.integer("emit.heartbeats.interval.seconds")))
