"""Which ACLs of source topics their remote topics get (MirrorSourceConnector of Kafka 4.3.1), and two things it can't.

Beyond it, both off unless asked for: prefixed bindings, and taking back what was copied once the source has revoked it.
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

    Literal ones of topics that are (or would be) copied, but for ALLOW WRITE: only the mirror writes there. ALLOW ALL
    becomes ALLOW READ; everything else stays as it is. `LITERAL *` is a topic named `*` to this rule, as in Java.
    `prefixed_for`: the topics copied now, if prefixed bindings are wanted; one is copied if it covers any of them.
    With the identity policy it covers the target's own topics too.
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
    """Bindings to create on the target, in order; none that are there."""
    return sorted(set(wanted) - set(existing))


def to_remove(
    copied: Collection[AclBinding], wanted: Collection[AclBinding], existing: Collection[AclBinding]
) -> list[AclBinding]:
    """Bindings to delete on the target: those copied before that the source no longer gives.

    Only what is known to have been copied: a binding made by hand on the target is nobody's to take away.
    """
    return sorted((set(copied) - set(wanted)) & set(existing))


Copies = Mapping[AclBinding, Collection[AclBinding]]


class SeenBindings:
    """Which bindings of the source each copy stands for, of all that were seen since this was made, and `restored` ones."""

    def __init__(self, restored: Copies | None = None) -> None:
        self._sources: dict[AclBinding, set[AclBinding]] = {}
        for copy, sources in (restored or {}).items():
            self._sources[copy] = set(sources)

    def note(self, copies: Copies) -> set[Resource]:
        """`copies`: binding of the source → its bindings on the target. Returns the resources that this is news of."""
        news = set()
        for source, remote in copies.items():
            for binding in remote:
                known = self._sources.setdefault(binding, set())
                if source not in known:
                    known.add(source)
                    news.add(binding.of)
        return news

    def revoked(self, given: Collection[AclBinding]) -> set[AclBinding]:
        """Copies of which the source gives no binding any more that they stand for.

        A binding that the source still gives is not revoked, though it may not be copied now: its topics may be gone.
        """
        return {remote for remote, sources in self._sources.items() if sources.isdisjoint(given)}

    def forget(self, copies: Collection[AclBinding]) -> set[Resource]:
        """They are off the target. Returns the resources that this is news of."""
        return {each.of for each in copies if self._sources.pop(each, None) is not None}

    def copies_of(self, resources: Collection[Resource]) -> dict[Resource, Copies]:
        """What is known of these resources: each copy with the bindings of the source that it stands for."""
        found: dict[Resource, dict[AclBinding, Collection[AclBinding]]] = {each: {} for each in resources}
        for copy, sources in self._sources.items():
            if copy.of in found:
                found[copy.of][copy] = sources
        return dict(found)
