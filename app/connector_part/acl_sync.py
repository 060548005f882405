"""ACLs of remote topics: made to follow those of their source topics, again and again.

Rules: connectors/acl_rules.py. As in MirrorMaker 2 bindings are only ever added; `sync.topic.acls.remove.enabled` lets
those go whose source was seen by this connector and is there no more. What it saw is kept in memory alone: after a restart
of the part (a new config too) nothing is removed but what is seen, and revoked, from then on. So a binding that somebody
made on the target by hand is never touched, unless the source gave the very same one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from mirror_connect.app.connector_part.config_sync import Links
from mirror_connect.connectors.acl_rules import AclBinding, SeenBindings, remote_bindings, to_add, to_remove
from mirror_connect.connectors.config_table import Settings
from mirror_connect.connectors.mirror_source import PREFIXED_ACLS, REMOVE_ACLS, own_boolean, topic_selection
from mirror_connect.kafka_io.acl_admin import create_acls, delete_acls, told, topic_acls
from mirror_connect.kafka_io.admin import ClusterAdmin

log = logging.getLogger(__name__)


class AclSync:
    """For one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._connector = settings.originals.get("name", "")
        self._alias = settings.text("source.cluster.alias")
        # One of its own: a filter is for one thread.
        self._selection = topic_selection(settings)
        self._prefixed = own_boolean(settings, PREFIXED_ACLS)
        self._seen = SeenBindings() if own_boolean(settings, REMOVE_ACLS) else None
        self._said: set[str] = set()

    def follow(
        self, source: ClusterAdmin, target: ClusterAdmin, links: Links, kept: Collection[str] = frozenset()
    ) -> list[str]:
        """One round; blocking. One line for each binding that is refused. ClusterUnreachable, NotAuthorized, AdminError.

        `kept`: names on the target that no copy may have; nobody gets rights to them by way of the source either.
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
        missing = to_add(wanted, existing)
        refused = create_acls(target, missing) if missing else {}
        self._tell("created", [binding for binding in missing if binding not in refused])
        troubles = list(refused.values())
        if self._seen is not None:
            # With a binding refused nothing is removed: it may be the DENY that takes another one's place.
            if not refused:
                troubles += self._remove(self._seen, target, self._seen.revoked(given), wanted, existing)
            self._seen.note(copies)
        return troubles

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
        seen.forget(set(revoked) - set(kept))
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
