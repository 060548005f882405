"""Makes the worker connector for a connector class."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, WorkerConnector
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.mirror_source import ConnectorConfig, MirrorSourceConnector
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.sampling_verification import OffsetsOf
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors import MirrorCheckpoint, MirrorHeartbeat, connector_definition
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups


class WorkerConnectorFactory:
    """`snapshot`: the config topic. A new assignment moves as little as possible of those that are stored there."""

    def __init__(
        self,
        targets: TargetChooser,
        offsets_of: OffsetsOf,
        snapshot: Callable[[], ConfigSnapshot],
        others: OtherCopies,
    ) -> None:
        self._targets = targets
        self._offsets_of = offsets_of
        self._snapshot = snapshot
        self._others = others

    def __call__(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], context: ConnectorContext
    ) -> WorkerConnector:
        """The connector, not started yet. ConfigError for a config that is not valid once it is resolved."""
        definition = connector_definition(resolved["connector.class"])
        settings = definition.settings(resolved, raw)
        stored = [set_values(task) for task in self._snapshot().tasks(context.name)]
        if isinstance(definition, MirrorHeartbeat):
            return MirrorHeartbeatConnector(raw, settings, self._targets, context)
        if isinstance(definition, MirrorCheckpoint):
            groups = [group for task in stored for group in assigned_groups(task)]
            return MirrorCheckpointConnector(raw, settings, self._targets, context, previous=groups)
        previous = [stored_partitions(task.get(ASSIGNED_PARTITIONS) or "") for task in stored]
        config = ConnectorConfig(raw, settings, previous)
        return MirrorSourceConnector(config, self._targets, context, self._offsets_of, self._others)
