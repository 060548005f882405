"""MirrorHeartbeatConnector in the worker: creates the heartbeats topic, and has one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.app.worker_connectors.internal_topics import heartbeats_topic, make_internal_topic
from mirror_connect.app.worker_connectors.scheduler import RefreshScheduler
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.mirror.mirror_heartbeat import task_configs
from mirror_connect.connectors.mirror.settings import admin_timeout_s
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


@dataclass(frozen=True, slots=True)
class Found:
    """A problem if the topic is refused."""

    problems: Sequence[Problem]


class MirrorHeartbeatConnector:
    """See the module. Task configs are made from `raw`; `settings` are resolved."""

    def __init__(
        self, raw: Mapping[str, str], settings: Settings, targets: TargetChooser, context: ConnectorContext
    ) -> None:
        self._settings = settings
        self._targets = targets
        self._context = context
        self._tasks = task_configs(raw, settings)
        self._scheduler = RefreshScheduler(context, self._refresh, self._take, every_s=0.0)

    def start(self) -> None:
        """Begins to create the topic, in the background."""
        if self._tasks:
            self._scheduler.start()
        else:
            self._context.started()
            self._context.request_task_reconfiguration([])

    async def stop(self) -> None:
        """Ends it."""
        await self._scheduler.stop()

    def _take(self, _: Found) -> None:
        # Also without the topic, as in MirrorMaker: the task waits for it.
        self._context.request_task_reconfiguration(self._tasks)

    def _refresh(self) -> Found:
        settings = self._settings
        timeout = admin_timeout_s(settings)
        what = f"target cluster {settings.text('target.cluster.alias')}"
        admin = ClusterAdmin(self._targets.choose(settings.originals, timeout).admin, what, timeout, user=TARGET_USER)
        topic = heartbeats_topic(settings)
        refused = make_internal_topic(admin, self._context.name, topic.name, topic.setting, topic.replicas)
        return Found([Problem(topic.name, ProblemCode.TOPIC_NOT_CREATED, refused)] if refused else [])
