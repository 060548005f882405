"""Makes the worker connector for a connector class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, WorkerConnector
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.mirror_source import ConnectorConfig, MirrorSourceConnector
from mirror_connect.app.worker_connectors.sampling_verification import OffsetsOf
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors import MirrorCheckpoint, MirrorHeartbeat, connector_definition
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups

# The task configs of a connector in the config topic: a new assignment moves as little as possible.
StoredTasks = Callable[[str], Sequence[Mapping[str, str | None]]]


class WorkerConnectorFactory:
    """See the module."""

    def __init__(self, targets: TargetChooser, offsets_of: OffsetsOf, stored_tasks: StoredTasks) -> None:
        self._targets = targets
        self._offsets_of = offsets_of
        self._stored_tasks = stored_tasks

    def __call__(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], context: ConnectorContext
    ) -> WorkerConnector:
        """The connector, not started yet. ConfigError for a config that is not valid once it is resolved."""
        definition = connector_definition(resolved["connector.class"])
        settings = definition.settings(resolved, raw)
        stored = [
            {key: value for key, value in task.items() if value is not None}
            for task in self._stored_tasks(context.name)
        ]
        if isinstance(definition, MirrorHeartbeat):
            return MirrorHeartbeatConnector(raw, settings, self._targets, context)
        if isinstance(definition, MirrorCheckpoint):
            groups = [group for task in stored for group in assigned_groups(task)]
            return MirrorCheckpointConnector(raw, settings, self._targets, context, previous=groups)
        previous = [stored_partitions(task.get(ASSIGNED_PARTITIONS) or "") for task in stored]
        return MirrorSourceConnector(ConnectorConfig(raw, settings, previous), self._targets, context, self._offsets_of)
