"""Makes the part of a connector: which class needs which part is written here, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mirror_connect.app.worker_connectors.following import OffsetsOf
from mirror_connect.app.worker_connectors.host import ConnectorPart, PartHost
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointPart
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatPart
from mirror_connect.app.worker_connectors.mirror_source import MirrorSourcePart, PartConfig
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors import MirrorCheckpoint, MirrorHeartbeat, connector_definition
from mirror_connect.connectors.mirror.assignment import stored_partitions
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups

# The task configs that the config topic holds for a connector: what ran before is moved as little as possible.
StoredTasks = Callable[[str], Sequence[Mapping[str, str | None]]]


class PartFactory:
    """See the module."""

    def __init__(self, targets: TargetChooser, offsets_of: OffsetsOf, stored_tasks: StoredTasks) -> None:
        self._targets = targets
        self._offsets_of = offsets_of
        self._stored_tasks = stored_tasks

    def __call__(self, name: str, raw: Mapping[str, str], resolved: Mapping[str, str], host: PartHost) -> ConnectorPart:
        """The part, not started yet. ConfigError for a config that is not valid once it is resolved."""
        definition = connector_definition(resolved["connector.class"])
        settings = definition.settings(resolved, raw)
        stored = [{key: value for key, value in task.items() if value is not None} for task in self._stored_tasks(name)]
        if isinstance(definition, MirrorHeartbeat):
            return MirrorHeartbeatPart(name, raw, settings, self._targets, host)
        if isinstance(definition, MirrorCheckpoint):
            groups = [group for task in stored for group in assigned_groups(task)]
            return MirrorCheckpointPart(name, raw, settings, self._targets, host, previous=groups)
        previous = [stored_partitions(task.get("task.assigned.partitions") or "") for task in stored]
        return MirrorSourcePart(PartConfig(name, raw, settings, previous), self._targets, host, self._offsets_of)
