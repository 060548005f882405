"""DescribeAcls as bytes: aiokafka's struct in version 1, written-out bytes in the flexible ones."""

from __future__ import annotations

from aiokafka.protocol.admin import DescribeAclsRequest_v1, DescribeAclsResponse_v1

from mirror_connect.kafka_io.protocol.acls import AclEntry, DescribeAclsResponse, DescribeTopicAcls
from tests.fakes.request_bytes import decoded, encoded

ENTRY = AclEntry(2, 3, "orders", "User:u", "*", 3, 3)


def test_the_request_of_version_one_is_aiokafkas() -> None:
    assert encoded(DescribeTopicAcls(), 1) == DescribeAclsRequest_v1(2, None, 1, None, None, 1, 1).encode()


def test_the_flexible_request_has_compact_nulls_and_tags() -> None:
    assert encoded(DescribeTopicAcls(), 3) == bytes.fromhex("02 00 01 00 00 01 01 00")


def test_the_answer_of_version_one_is_aiokafkas() -> None:
    body = DescribeAclsResponse_v1(
        9, 0, None, [(2, "orders", 3, [("User:u", "*", 3, 3), ("User:v", "h", 8, 2)])]
    ).encode()
    assert decoded(DescribeTopicAcls(), 1, body) == DescribeAclsResponse(
        0, "", [ENTRY, AclEntry(2, 3, "orders", "User:v", "h", 8, 2)]
    )


def test_a_flexible_answer_is_read_with_its_tags() -> None:
    body = bytes.fromhex("00000000 0000 00 02 02 07") + b"orders" + bytes.fromhex("03 02 07") + b"User:u"
    assert decoded(
        DescribeTopicAcls(), 3, body + bytes.fromhex("02") + b"*" + bytes.fromhex("03 03 00 00 00")
    ) == DescribeAclsResponse(0, "", [ENTRY])
