"""The request DescribeAcls, by hand: librdkafka hands an error of the whole answer over as an empty list of ACLs.

A missing right, or a cluster without an authorizer, would look like a cluster on which everything has been revoked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.wire_codec import Reader, Request, Writer

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


class DescribedAcls(NamedTuple):
    """`error`: 31 without DESCRIBE on the cluster, 54 without an authorizer."""

    error: int
    message: str
    acls: list[AclEntry]


@dataclass(frozen=True, slots=True)
class DescribeTopicAcls(Request[DescribedAcls]):
    """Every ACL that names topics, of whatever pattern, principal, host, operation and permission."""

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

    def decode(self, version: int, reader: Reader) -> DescribedAcls:
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
        return DescribedAcls(error, message, found)
