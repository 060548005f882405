"""What makes remote topics follow their sources beside the topic refresh: configs and ACLs, each in rounds of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.acl_sync import AclMemory, AclSync, acl_sync_every_s
from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links, config_sync_every_s
from mirror_connect.app.worker_connectors.joined_troubles import JoinedTroubles
from mirror_connect.app.worker_connectors.rounds import Rounds
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin


@dataclass(frozen=True, slots=True)
class Known:
    """What a topic refresh found last: both clusters, and the topics that are copied and there on both.

    `kept`: names on the target that no copy may have.
    """

    source: ClusterAdmin
    target: ClusterAdmin
    links: Links
    kept: Collection[str] = frozenset()


Follow = Callable[[Known], list[str]]


@dataclass(frozen=True, slots=True)
class Followed:
    """What one round met with."""

    troubles: list[str]


class TopicFollowers:
    """Begins with the first topics that are known. A failure of theirs is a line for the user, never the connector's end."""

    def __init__(self, settings: Settings, troubles: JoinedTroubles, acls: AclMemory) -> None:
        self._known: Known | None = None
        self._going = False
        name = settings.originals.get("name", "")
        self._rounds = [
            Rounds(name, troubles.beside(), self._round(what, follow), lambda _: None, every_s)
            for what, follow, every_s in (
                ("topic configs are not synced", _configs(settings), config_sync_every_s(settings)),
                ("topic ACLs are not synced", _acls(settings, acls), acl_sync_every_s(settings)),
            )
            if every_s > 0
        ]

    def know(self, known: Known) -> None:
        """From now on these are followed; on the event loop."""
        self._known = known
        if not self._going:
            self._going = True
            for rounds in self._rounds:
                rounds.start()

    async def stop(self) -> None:
        """Ends it."""
        for rounds in self._rounds:
            await rounds.stop()

    def _round(self, what: str, follow: Follow) -> Callable[[], Followed]:
        def once() -> Followed:
            known = self._known
            assert known is not None  # rounds start with it
            try:
                return Followed(follow(known))
            except (ClusterUnreachable, NotAuthorized, AdminError) as error:
                return Followed([f"{what}: {error}"])

        return once


def _configs(settings: Settings) -> Follow:
    sync = ConfigSync(settings)
    return lambda known: sync.follow(known.source, known.target, known.links)


def _acls(settings: Settings, memory: AclMemory) -> Follow:
    sync = AclSync(settings, memory)
    return lambda known: sync.follow(known.source, known.target, known.links, known.kept)
