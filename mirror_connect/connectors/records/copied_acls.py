"""The ACLs that a source connector has copied, as records beside its source offsets (docs/decisions/0018).

The key has the form of a source offset's key, and the value holds only a text. So Kafka's workers list these records among
the connector's offsets and delete them with those. There is one for each resource of the target with copied ACLs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from mirror_connect.connectors.acls import AclBinding, Resource

# The one member of the partition: "<pattern> <name>" of the resource on the target.
MEMBER: Final = "mirror-connect.copied.acls"
_BINDINGS: Final = "bindings"


def acl_partition(resource: Resource) -> dict[str, Any]:
    """The partition of a resource's record."""
    return {MEMBER: f"{resource.pattern} {resource.name}"}


def is_acl_partition(partition: Mapping[str, Any]) -> bool:
    """Whether it is the partition of such a record, not of a source offset."""
    return MEMBER in partition


def acl_offset(copies: Mapping[AclBinding, Collection[AclBinding]]) -> dict[str, Any] | None:
    """The value: `copies` of one resource, each with the source's bindings that it is a copy of; None without copies.

    It is JSON text, because Kafka's workers refuse offsets with anything but plain values: a list of [principal, host,
    operation, permission, [[name at the source, operation at the source], …]].
    """
    if not copies:
        return None
    listed = [
        [copy.principal, copy.host, copy.operation, copy.permission, sorted([s.name, s.operation] for s in sources)]
        for copy, sources in sorted(copies.items())
    ]
    return {_BINDINGS: json.dumps(listed, ensure_ascii=False, separators=(",", ":"))}


def copied_acls(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> dict[AclBinding, set[AclBinding]]:
    """The inverse; empty if the record has another form."""
    found: dict[AclBinding, set[AclBinding]] = {}
    pattern, _, name = str(partition.get(MEMBER)).partition(" ")
    try:
        listed = json.loads(offset[_BINDINGS])
        for principal, host, operation, permission, sources in listed:
            copy = AclBinding("TOPIC", pattern, name, principal, host, operation, permission)
            found[copy] = {AclBinding("TOPIC", pattern, n, principal, host, op, permission) for n, op in sources}
    except (KeyError, TypeError, ValueError):
        return {}
    texts = all(
        isinstance(text, str) for copy, sources in found.items() for each in (copy, *sources) for text in each.texts
    )
    return found if texts else {}
