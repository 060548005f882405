"""The ACLs that remote topics get, by the rules of MirrorSourceConnector (Kafka 4.3.1), and two additions.

The additions are off by default: prefixed bindings, and deleting copies that the source has revoked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mirror_connect.connectors.acls import ALLOW, LITERAL, PREFIXED, TOPIC, AclBinding, Resource
from mirror_connect.connectors.mirror.filters import TopicSelection


def remote_bindings(
    bindings: Iterable[AclBinding],
    selection: TopicSelection,
    source_alias: str,
    prefixed_for: Collection[str] = (),
) -> set[AclBinding]:
    """The target's bindings for the source's.

    Literal bindings of topics that are (or would be) copied, except ALLOW WRITE: only the mirror writes there. ALLOW ALL
    becomes ALLOW READ; the others stay as they are. `LITERAL *` is a topic named `*` to this rule, as in Java.
    `prefixed_for`: the topics copied now, if prefixed bindings are wanted. A prefixed binding is copied if it covers any
    of them. With the identity policy it covers the target's own topics, too.
    """
    wanted = set()
    for binding in bindings:
        if binding.resource != TOPIC or (binding.permission, binding.operation) == (ALLOW, "WRITE"):
            continue
        if binding.pattern == LITERAL:
            copied = selection.should_replicate(binding.name)
        else:
            copied = binding.pattern == PREFIXED and any(topic.startswith(binding.name) for topic in prefixed_for)
        if copied:
            name = selection.policy.remote_topic(source_alias, binding.name)
            all_of_it = (binding.permission, binding.operation) == (ALLOW, "ALL")
            wanted.add(replace(binding, name=name, operation="READ" if all_of_it else binding.operation))
    return wanted


def to_add(wanted: Collection[AclBinding], existing: Collection[AclBinding]) -> list[AclBinding]:
    """Bindings to create on the target, in order, without existing ones."""
    return sorted(set(wanted) - set(existing))


def to_remove(
    copied: Collection[AclBinding], wanted: Collection[AclBinding], existing: Collection[AclBinding]
) -> list[AclBinding]:
    """Bindings to delete on the target: those copied before that the source no longer has.

    Only known copies are deleted, never a binding that was made by hand on the target.
    """
    return sorted((set(copied) - set(wanted)) & set(existing))


Copies = Mapping[AclBinding, Collection[AclBinding]]


class SeenBindings:
    """The source bindings of each copy: `restored` ones, and all that were seen since."""

    def __init__(self, restored: Copies | None = None) -> None:
        self._sources: dict[AclBinding, set[AclBinding]] = {}
        for copy, sources in (restored or {}).items():
            self._sources[copy] = set(sources)

    def note(self, copies: Copies) -> set[Resource]:
        """Adds copies: source binding → its bindings on the target. Returns the resources whose copies changed."""
        changed = set()
        for source, remote in copies.items():
            for binding in remote:
                known = self._sources.setdefault(binding, set())
                if source not in known:
                    known.add(source)
                    changed.add(binding.of)
        return changed

    def revoked(self, given: Collection[AclBinding]) -> set[AclBinding]:
        """Copies without any remaining binding at the source.

        A binding that the source still has is not revoked, even if it is not copied now because its topics are gone.
        """
        return {remote for remote, sources in self._sources.items() if sources.isdisjoint(given)}

    def forget(self, copies: Collection[AclBinding]) -> set[Resource]:
        """Forgets copies that were deleted on the target. Returns the resources whose copies changed."""
        return {each.of for each in copies if self._sources.pop(each, None) is not None}

    def copies_of(self, resources: Collection[Resource]) -> dict[Resource, Copies]:
        """The copies of these resources, each with its source bindings."""
        found: dict[Resource, dict[AclBinding, Collection[AclBinding]]] = {each: {} for each in resources}
        for copy, sources in self._sources.items():
            if copy.of in found:
                found[copy.of][copy] = sources
        return dict(found)
