"""The ACLs of topics as an administrator reads them: an error of the whole answer is never an empty list."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.acl_admin import topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.protocol.acls import AclEntry, DescribeAclsResponse

ENTRY = AclEntry(2, 3, "orders", "User:u", "*", 3, 3)


def admin(answer: DescribeAclsResponse, monkeypatch: pytest.MonkeyPatch) -> ClusterAdmin:
    made = ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "source cluster")
    ask: Any = lambda requests, what: [answer]  # noqa: E731
    monkeypatch.setattr(made, "ask", ask)
    return made


def test_a_missing_right_is_never_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotAuthorized, match=r"asked for the ACLs of topics"):
        topic_acls(admin(DescribeAclsResponse(31, "", []), monkeypatch))


def test_another_error_is_never_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AdminError):
        topic_acls(admin(DescribeAclsResponse(-1, "", []), monkeypatch))


def test_no_authorizer_is_told_apart_from_no_acls(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [topic_acls(admin(DescribeAclsResponse(error, "", []), monkeypatch)) for error in (54, 0)]
    assert found == [None, set()]


def test_an_operation_that_is_not_known_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = DescribeAclsResponse(0, "", [ENTRY, ENTRY._replace(operation=99)])
    assert topic_acls(admin(answer, monkeypatch)) == {
        AclBinding("TOPIC", "LITERAL", "orders", "User:u", "*", "READ", "ALLOW")
    }
