"""The connector part of MirrorHeartbeatConnector: makes the heartbeats topic, and has one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.host import PartHost
from mirror_connect.app.worker_connectors.internal_topics import make_internal_topic
from mirror_connect.app.worker_connectors.rounds import Rounds
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.mirror.mirror_heartbeat import task_configs
from mirror_connect.connectors.records.heartbeats import HEARTBEATS_TOPIC
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


@dataclass(frozen=True, slots=True)
class Found:
    """Whether the topic is there, as far as that is this connector's to say."""

    troubles: Sequence[str]


class MirrorHeartbeatPart:
    """See the module. `raw` is what task configs are made of, `settings` are resolved."""

    def __init__(
        self, name: str, raw: Mapping[str, str], settings: Settings, targets: TargetChooser, host: PartHost
    ) -> None:
        self._name = name
        self._settings = settings
        self._targets = targets
        self._host = host
        self._tasks = task_configs(raw, settings)
        self._rounds = Rounds(name, host, self._look, self._take, every_s=0.0)

    def start(self) -> None:
        """Begins to make the topic, in the background."""
        if self._tasks:
            self._rounds.start()
        else:
            self._host.started(self._name)
            self._host.reconfigure(self._name, [])

    async def stop(self) -> None:
        """Ends it."""
        await self._rounds.stop()

    def _take(self, _: Found) -> None:
        # Also without the topic, as in MirrorMaker: the task waits for it.
        self._host.reconfigure(self._name, self._tasks)

    def _look(self) -> Found:
        settings = self._settings
        timeout = settings.integer("admin.timeout.ms") / 1000
        what = f"target cluster {settings.text('target.cluster.alias')}"
        admin = ClusterAdmin(self._targets.choose(settings.originals, timeout).admin, what, timeout, user=TARGET_USER)
        setting = "heartbeats.topic.replication.factor"
        refused = make_internal_topic(admin, self._name, HEARTBEATS_TOPIC, setting, settings.integer(setting))
        return Found([refused] if refused else [])
