"""ACLs of a cluster, in Kafka's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

TOPIC: Final = "TOPIC"
LITERAL: Final = "LITERAL"
PREFIXED: Final = "PREFIXED"
ALLOW: Final = "ALLOW"


class Resource(NamedTuple):
    """The resource of a binding: topics by pattern (LITERAL, PREFIXED) and name."""

    pattern: str
    name: str


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """An ACL, in Kafka's words: resource TOPIC, pattern LITERAL, operation READ, permission ALLOW …"""

    resource: str
    pattern: str
    name: str
    principal: str
    host: str
    operation: str
    permission: str

    @property
    def of(self) -> Resource:
        """The resource of this binding."""
        return Resource(self.pattern, self.name)

    @property
    def texts(self) -> tuple[str, ...]:
        """All members."""
        return (self.resource, self.pattern, self.name, self.principal, self.host, self.operation, self.permission)
