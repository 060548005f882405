"""Fences the producers of a connector's tasks, on the cluster that they write to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.rights import PRODUCING_USER
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.admin.producer_fencing import fence_producers
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.worker_lease import lease_over

# An open transaction with many partitions takes the target a moment to abort.
FENCING_S: Final = 30.0


class TaskFencing:
    """See the module. `lease`: seconds for which this worker may fence: only the leader of a group does."""

    def __init__(
        self, targets: TargetChooser, transactional_id: Callable[[TaskId], str], lease: Callable[[], float]
    ) -> None:
        self._targets = targets
        self._transactional_id = transactional_id
        self._lease = lease

    async def fence(self, connector: str, resolved: Mapping[str, str], tasks: Collection[int]) -> None:
        """Returns when none of these tasks' former producers can write or commit. `resolved`: the connector's config.

        LeaseOver, ClusterUnreachable, NotAuthorized, ConfigError, AdminError.
        """
        # As the tasks log in: they have the right to their transactional ids.
        properties = (await self._targets.chosen(resolved)).producer
        ids = [self._transactional_id(TaskId(connector, number)) for number in tasks]
        cluster = Cluster(properties, f"{properties.get('client.id') or connector}-fencing", "producer")
        try:
            await fence_producers(cluster, ids, FENCING_S, user=PRODUCING_USER, before_write=self._check_lease)
        finally:
            await cluster.close()

    def _check_lease(self) -> None:
        # A former leader would fence tasks that another one has started.
        if self._lease() <= 0:
            raise lease_over()
