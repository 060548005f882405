"""Keeps remote topics equal to their sources: syncs of configs and of ACLs, each with a scheduler of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.worker_connectors.acl_sync import AclMemory, AclSync, acl_sync_every_s
from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links, config_sync_every_s
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.app.worker_connectors.scheduler import RefreshScheduler, problem_of
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError


@dataclass(frozen=True, slots=True)
class Known:
    """The result of the last topic refresh: both clusters, and the copied topics that are on both.

    `reserved`: topics on the target that no copy may be written to.
    """

    source: ClusterAdmin
    target: ClusterAdmin
    links: Links
    reserved: Collection[str] = frozenset()


# A sentence for each topic or binding that is refused.
Sync = Callable[[Known], list[str]]
_UNSYNCED: Final = {
    ProblemCode.TOPIC_CONFIGS_UNSYNCED: "topic configs are not synced",
    ProblemCode.TOPIC_ACLS_UNSYNCED: "topic ACLs are not synced",
}


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of one sync."""

    problems: list[Problem]


class TopicSyncs:
    """They start after the first topic refresh. Their failure is a line for the user, never the connector's end."""

    def __init__(self, settings: Settings, context: ConnectorContext, acls: AclMemory) -> None:
        self._known: Known | None = None
        self._started = False
        self._schedulers = [
            RefreshScheduler(context, self._refresh(code, sync), lambda _: None, every_s, starts_connector=False)
            for code, sync, every_s in (
                (ProblemCode.TOPIC_CONFIGS_UNSYNCED, _configs(settings), config_sync_every_s(settings)),
                (ProblemCode.TOPIC_ACLS_UNSYNCED, _acls(settings, acls), acl_sync_every_s(settings)),
            )
            if every_s > 0
        ]

    def know(self, known: Known) -> None:
        """Syncs these topics from now on; on the event loop."""
        self._known = known
        if not self._started:
            self._started = True
            for scheduler in self._schedulers:
                scheduler.start()

    async def stop(self) -> None:
        """Ends it."""
        for scheduler in self._schedulers:
            await scheduler.stop()

    def _refresh(self, code: ProblemCode, sync: Sync) -> Callable[[], Synced]:
        def once() -> Synced:
            known = self._known
            assert known is not None  # the schedulers start with it
            try:
                return Synced([Problem("topics", code, line) for line in sync(known)])
            except (ClusterUnreachable, NotAuthorized, AdminError) as error:
                return Synced([problem_of(error, _UNSYNCED[code])])

        return once


def _configs(settings: Settings) -> Sync:
    configs = ConfigSync(settings)
    return lambda known: configs.sync(known.source, known.target, known.links)


def _acls(settings: Settings, memory: AclMemory) -> Sync:
    acls = AclSync(settings, memory)
    return lambda known: acls.sync(known.source, known.target, known.links, known.reserved)
