"""The request DescribeAcls. librdkafka's own shows a top-level error as an empty list of ACLs.

A missing right, or a cluster without an authorizer, would look like a cluster whose ACLs have all been removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

ANY = 1
TOPIC = 2


class AclEntry(NamedTuple):
    """An ACL, with the numbers of Kafka's enums."""

    resource: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


class DescribeAclsResponse(NamedTuple):
    """`error`: 31 without DESCRIBE on the cluster, 54 without an authorizer."""

    error: int
    message: str
    acls: list[AclEntry]


@dataclass(frozen=True, slots=True)
class DescribeTopicAcls(Request[DescribeAclsResponse]):
    """Requests all ACLs of topics, with any pattern, principal, host, operation and permission."""

    api_key: ClassVar[int] = 29
    versions: ClassVar[tuple[int, int]] = (1, 3)
    flexible_from: ClassVar[int] = 2

    def encode(self, version: int, writer: Writer) -> None:
        """As DescribeAcls v1 to v3."""
        writer.int8(TOPIC)
        writer.string(None)
        writer.int8(ANY)
        writer.string(None)
        writer.string(None)
        writer.int8(ANY)
        writer.int8(ANY)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> DescribeAclsResponse:
        """As DescribeAcls v1 to v3."""
        reader.int32()
        error, message = reader.int16(), reader.string()
        found: list[AclEntry] = []

        def resource() -> None:
            kind, name, pattern = reader.int8(), reader.string(), reader.int8()

            def acl() -> None:
                principal, host, operation, permission = reader.string(), reader.string(), reader.int8(), reader.int8()
                reader.tags()
                found.append(AclEntry(kind, pattern, name, principal, host, operation, permission))

            reader.array(acl)
            reader.tags()

        reader.array(resource)
        return DescribeAclsResponse(error, message, found)
