"""DescribeAcls held against aiokafka's struct, and what an error of the whole answer becomes."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.protocol.admin import DescribeAclsRequest_v1, DescribeAclsResponse_v1

from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.acl_admin import topic_acls
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin
from mirror_connect.kafka_io.protocol.wire_acls import AclEntry, DescribedAcls, DescribeTopicAcls
from mirror_connect.kafka_io.protocol.wire_codec import Reader, Writer

ENTRY = AclEntry(2, 3, "orders", "User:u", "*", 3, 3)


def encoded(version: int) -> bytes:
    writer = Writer(flexible=version >= 2)
    DescribeTopicAcls().encode(version, writer)
    return b"".join(writer.buffers())


def decoded(version: int, body: bytes) -> DescribedAcls:
    return DescribeTopicAcls().decode(version, Reader(memoryview(body), flexible=version >= 2))


def test_the_request_of_version_one_is_aiokafkas() -> None:
    assert encoded(1) == DescribeAclsRequest_v1(2, None, 1, None, None, 1, 1).encode()


def test_the_flexible_request_has_compact_nulls_and_tags() -> None:
    assert encoded(3) == bytes.fromhex("02 00 01 00 00 01 01 00")


def test_the_answer_of_version_one_is_aiokafkas() -> None:
    body = DescribeAclsResponse_v1(
        9, 0, None, [(2, "orders", 3, [("User:u", "*", 3, 3), ("User:v", "h", 8, 2)])]
    ).encode()
    assert decoded(1, body) == DescribedAcls(0, "", [ENTRY, AclEntry(2, 3, "orders", "User:v", "h", 8, 2)])


def test_a_flexible_answer_is_read_with_its_tags() -> None:
    body = bytes.fromhex("00000000 0000 00 02 02 07") + b"orders" + bytes.fromhex("03 02 07") + b"User:u"
    assert decoded(3, body + bytes.fromhex("02") + b"*" + bytes.fromhex("03 03 00 00 00")) == DescribedAcls(
        0, "", [ENTRY]
    )


def admin(answer: DescribedAcls, monkeypatch: pytest.MonkeyPatch) -> ClusterAdmin:
    made = ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "source cluster")
    ask: Any = lambda requests, what: [answer]  # noqa: E731
    monkeypatch.setattr(made, "ask", ask)
    return made


def test_a_missing_right_is_never_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAuthorized, match=r"asked for the ACLs of topics"):
        topic_acls(admin(DescribedAcls(31, "", []), monkeypatch))


def test_another_error_is_never_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AdminError):
        topic_acls(admin(DescribedAcls(-1, "", []), monkeypatch))


def test_no_authorizer_is_told_apart_from_no_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [topic_acls(admin(DescribedAcls(error, "", []), monkeypatch)) for error in (54, 0)]
    assert found == [None, set()]


def test_an_operation_that_is_not_known_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = DescribedAcls(0, "", [ENTRY, ENTRY._replace(operation=99)])
    assert topic_acls(admin(answer, monkeypatch)) == {
        AclBinding("TOPIC", "LITERAL", "orders", "User:u", "*", "READ", "ALLOW")
    }
