"""Syncs the ACLs of remote topics with those of their source topics, at an interval.

Rules: mirror/acl_rules.py. As in MirrorMaker 2, bindings are only added. With `sync.topic.acls.remove.enabled`, it also
removes bindings that this connector has copied and that the source has revoked. Copied bindings are stored beside the source
offsets (stored_acls.py) before they are created, so that the sync finds revocations from a time when nothing ran. It never
removes a binding that somebody made on the target by hand, unless the source had the very same one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror_connect.app.worker_connectors.config_sync import Links
from mirror_connect.connectors.acls import LITERAL, AclBinding, Resource
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.acl_rules import Copies, SeenBindings, remote_bindings, to_add, to_remove
from mirror_connect.connectors.mirror.mirror_source import PREFIXED_ACLS, REMOVE_ACLS, topic_selection
from mirror_connect.connectors.mirror.routed_policy import RoutedReplicationPolicy
from mirror_connect.kafka_io.admin.acl_admin import binding_text, create_acls, delete_acls, topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)


class AclMemory(Protocol):
    """Stores the copied ACLs for as long as the connector's source offsets (stored_acls.StoredAcls). Blocking."""

    def load(self) -> Copies:
        """All copies, each with its bindings on the source. ClusterUnreachable, NotAuthorized."""

    def save(self, copies: Mapping[Resource, Copies]) -> None:
        """Stores the copies of these resources. ClusterUnreachable, NotAuthorized."""


@dataclass(frozen=True, slots=True)
class AclChanges:
    """What a sync has to do. `copies`: source binding → its bindings on the target; None: there is nothing to do at all.

    `add` and `remove` on the target; `revoked`: copies that the source no longer has. `nothing`: a line on why nothing is
    copied, if that may surprise.
    """

    copies: Mapping[AclBinding, Collection[AclBinding]] | None = None
    add: Sequence[AclBinding] = ()
    revoked: Collection[AclBinding] = ()
    remove: Sequence[AclBinding] = ()
    nothing: str | None = None


_NO_AUTHORIZER: Final = (
    "the target has no authorizer: ACLs of topics are not copied, and everybody may read the remote topics "
    "(set sync.topic.acls.enabled=false if this is intended)"
)


class AclSync:
    """For one thread at a time."""

    def __init__(self, settings: Settings, memory: AclMemory) -> None:
        self._connector = settings.originals.get("name", "")
        self._alias = settings.text("source.cluster.alias")
        # One of its own: a filter is for one thread.
        self._selection = topic_selection(settings)
        self._prefixed = settings.boolean(PREFIXED_ACLS)
        self._memory = memory
        self._removes = settings.boolean(REMOVE_ACLS)
        self._seen: SeenBindings | None = None
        self._logged: set[str] = set()

    def decide(
        self, source: ClusterAdmin, target: ClusterAdmin, links: Links, reserved: Collection[str] = frozenset()
    ) -> AclChanges:
        """What a sync has to do; blocking. It reads the memory, and stores nothing. Errors as of `sync`."""
        self._selection = self._selection.with_reserved(reserved)
        given = topic_acls(source)
        if given is None:
            return AclChanges(nothing="the source has no authorizer: there are no ACLs of topics to copy")
        self._selection.judge({binding.name for binding in given})
        copies = {binding: self._remote([binding], links) for binding in given}
        wanted = set().union(*copies.values())
        existing = topic_acls(target)
        if existing is None:
            return AclChanges(nothing=_NO_AUTHORIZER if wanted else None)
        revoked: Collection[AclBinding] = ()
        if self._removes:
            if self._seen is None:
                self._seen = SeenBindings(self._restored())
            # What the source has now is not revoked, so it makes no difference that `copies` are noted later.
            revoked = self._seen.revoked(given)
        return AclChanges(copies, to_add(wanted, existing), revoked, to_remove(revoked, wanted, existing))

    def sync(
        self, source: ClusterAdmin, target: ClusterAdmin, links: Links, reserved: Collection[str] = frozenset()
    ) -> list[str]:
        """One sync; blocking. One line for each refused binding. ClusterUnreachable, NotAuthorized, AdminError.

        `reserved`: topics on the target that no copy may be written to; no ACLs are copied to them either.
        If bindings are removed with their source, none is created that could not be stored before.
        """
        decided = self.decide(source, target, links, reserved)
        if decided.nothing is not None:
            self._log_once(decided.nothing)
        if decided.copies is None:
            return []
        if self._seen is not None:
            self._store(self._seen, self._seen.note(decided.copies))
        refused = create_acls(target, decided.add) if decided.add else {}
        self._log_bindings("created", [binding for binding in decided.add if binding not in refused])
        problems = list(refused.values())
        # If a binding is refused, nothing is removed: it may be a DENY that replaces another binding.
        if self._seen is not None and not refused:
            problems += self._remove(self._seen, target, decided)
        return problems

    def _store(self, seen: SeenBindings, changed: Collection[Resource]) -> None:
        try:
            self._memory.save(seen.copies_of(changed))
        except (ClusterUnreachable, NotAuthorized):
            self._seen = None  # the next sync begins with what is stored
            raise

    def _restored(self) -> Copies:
        """The stored copies, if their remote topics have the same names today.

        With another alias or policy it is another link, which has copied nothing.
        """
        remote_topic = self._selection.policy.remote_topic
        restored = {}
        for copy, sources in self._memory.load().items():
            of_today = {each for each in sources if remote_topic(self._alias, each.name) == copy.name}
            if of_today:
                restored[copy] = of_today
        return restored

    def _remove(self, seen: SeenBindings, target: ClusterAdmin, decided: AclChanges) -> list[str]:
        refused = delete_acls(target, decided.remove) if decided.remove else {}
        gone = [binding for binding in decided.remove if binding not in refused]
        self._log_bindings("deleted, as at the source,", gone)
        self._store(seen, seen.forget(set(decided.revoked) - set(refused)))
        return list(refused.values())

    def _remote(self, bindings: Collection[AclBinding], links: Links) -> set[AclBinding]:
        if isinstance(self._selection.policy, RoutedReplicationPolicy):
            # Routes are for names of whole topics. `*` or a prefix would become anything, and a topic that is not copied may
            # have the name of another one's copy.
            bindings = [each for each in bindings if each.pattern == LITERAL and each.name in links]
            return remote_bindings(bindings, self._selection, self._alias)
        return remote_bindings(bindings, self._selection, self._alias, links.keys() if self._prefixed else ())

    def _log_bindings(self, what: str, bindings: Collection[AclBinding]) -> None:
        for binding in bindings:
            log.info("Connector %s: %s ACL %s", ConnectorName(self._connector), what, binding_text(binding))

    def _log_once(self, line: str) -> None:
        log.log(
            logging.DEBUG if line in self._logged else logging.INFO,
            "Connector %s: %s",
            ConnectorName(self._connector),
            line,
        )
        self._logged.add(line)


def acl_sync_every_s(settings: Settings) -> float:
    """Seconds between two syncs; 0 for none at all."""
    on = settings.boolean("sync.topic.acls.enabled")
    return float(settings.integer("sync.topic.acls.interval.seconds")) if on else 0.0
