"""ACLs of remote topics: made to follow those of their source topics, again and again.

Rules: mirror/acl_rules.py. As in MirrorMaker 2 bindings are only ever added; `sync.topic.acls.remove.enabled` lets
those go that this connector has copied and the source gives no more. What it has copied is kept beside its positions
(stored_acls.py), written before a binding is created, so that a revocation is seen that came while nothing ran. A binding
that somebody made on the target by hand is never touched, unless the source gave the very same one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

from mirror_connect.app.worker_connectors.config_sync import Links
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.mirror.acl_rules import Copies, SeenBindings, remote_bindings, to_add, to_remove
from mirror_connect.connectors.mirror.mirror_source import PREFIXED_ACLS, REMOVE_ACLS, own_boolean, topic_selection
from mirror_connect.kafka_io.admin.acl_admin import create_acls, delete_acls, told, topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)


class AclMemory(Protocol):
    """Keeps what was copied for as long as the connector's positions (stored_acls.StoredAcls). Blocking."""

    def load(self) -> Copies:
        """All copies, each with the source's bindings that it stands for. ClusterUnreachable, NotAuthorized."""

    def save(self, copies: Mapping[Resource, Copies]) -> None:
        """Keeps what is copied of these resources. ClusterUnreachable, NotAuthorized."""


class AclSync:
    """For one thread at a time."""

    def __init__(self, settings: Settings, memory: AclMemory) -> None:
        self._connector = settings.originals.get("name", "")
        self._alias = settings.text("source.cluster.alias")
        # One of its own: a filter is for one thread.
        self._selection = topic_selection(settings)
        self._prefixed = own_boolean(settings, PREFIXED_ACLS)
        self._memory = memory
        self._removes = own_boolean(settings, REMOVE_ACLS)
        self._seen: SeenBindings | None = None
        self._said: set[str] = set()

    def follow(
        self, source: ClusterAdmin, target: ClusterAdmin, links: Links, kept: Collection[str] = frozenset()
    ) -> list[str]:
        """One round; blocking. One line for each binding that is refused. ClusterUnreachable, NotAuthorized, AdminError.

        `kept`: names on the target that no copy may have; nobody gets rights to them by way of the source either.
        Nothing is created that can't be remembered, where it should go with its source.
        """
        self._selection = self._selection.keeping(kept)
        given = topic_acls(source)
        if given is None:
            self._say_once("the source has no authorizer: there are no ACLs of topics to copy")
            return []
        self._selection.judge({binding.name for binding in given})
        copies = {binding: self._remote([binding], links) for binding in given}
        wanted = set().union(*copies.values())
        existing = topic_acls(target)
        if existing is None:
            if wanted:
                self._say_once(
                    "the target has no authorizer: ACLs of topics are not copied, and everybody may read the remote topics "
                    "(sync.topic.acls.enabled=false if that is meant)"
                )
            return []
        if self._removes:
            if self._seen is None:
                self._seen = SeenBindings(self._restored())
            self._keep(self._seen, self._seen.note(copies))
        missing = to_add(wanted, existing)
        refused = create_acls(target, missing) if missing else {}
        self._tell("created", [binding for binding in missing if binding not in refused])
        troubles = list(refused.values())
        # With a binding refused nothing is removed: it may be the DENY that takes another one's place.
        if self._seen is not None and not refused:
            troubles += self._remove(self._seen, target, self._seen.revoked(given), wanted, existing)
        return troubles

    def _keep(self, seen: SeenBindings, news: Collection[Resource]) -> None:
        try:
            self._memory.save(seen.copies_of(news))
        except (ClusterUnreachable, NotAuthorized):
            self._seen = None  # what is known is what is kept: the next round begins with that
            raise

    def _restored(self) -> Copies:
        """What was copied before this part began, under the names that remote topics have today: another alias or policy
        makes it another link, which has copied nothing."""
        remote_topic = self._selection.policy.remote_topic
        restored = {}
        for copy, sources in self._memory.load().items():
            of_today = {each for each in sources if remote_topic(self._alias, each.name) == copy.name}
            if of_today:
                restored[copy] = of_today
        return restored

    def _remove(
        self,
        seen: SeenBindings,
        target: ClusterAdmin,
        revoked: Collection[AclBinding],
        wanted: Collection[AclBinding],
        existing: Collection[AclBinding],
    ) -> list[str]:
        going = to_remove(revoked, wanted, existing)
        kept = delete_acls(target, going) if going else {}
        self._tell("deleted, as at the source,", [binding for binding in going if binding not in kept])
        self._keep(seen, seen.forget(set(revoked) - set(kept)))
        return list(kept.values())

    def _remote(self, bindings: Collection[AclBinding], links: Links) -> set[AclBinding]:
        return remote_bindings(bindings, self._selection, self._alias, links.keys() if self._prefixed else ())

    def _tell(self, what: str, bindings: Collection[AclBinding]) -> None:
        for binding in bindings:
            log.info("Connector %s: %s ACL %s", self._connector, what, told(binding))

    def _say_once(self, line: str) -> None:
        log.log(logging.DEBUG if line in self._said else logging.INFO, "Connector %s: %s", self._connector, line)
        self._said.add(line)


def acl_sync_every_s(settings: Settings) -> float:
    """Seconds between two rounds; 0 for none at all."""
    on = settings.boolean("sync.topic.acls.enabled")
    return float(settings.integer("sync.topic.acls.interval.seconds")) if on else 0.0
