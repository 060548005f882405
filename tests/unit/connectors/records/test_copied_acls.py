"""Records of copied ACLs: they come back as they were, and look like any offset to Kafka's workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.records.copied_acls import (
    MEMBER,
    acl_offset,
    acl_partition,
    copied_acls,
    is_acl_partition,
)

READ = AclBinding("TOPIC", "LITERAL", "orders", 'User:ü, "x"', "*", "READ", "ALLOW")
COPY = replace(READ, name="A.orders")
DENY, DENY_COPY = (
    replace(READ, permission="DENY", operation="WRITE"),
    replace(COPY, permission="DENY", operation="WRITE"),
)


def test_copies_come_back_with_what_they_stand_for() -> None:
    copies = {COPY: {READ, replace(READ, operation="ALL")}, DENY_COPY: {DENY}}
    offset = acl_offset(copies)
    assert offset is not None
    assert copied_acls(acl_partition(COPY.of), offset) == copies


def test_a_name_with_a_space_and_a_prefix_come_back() -> None:
    copy = replace(COPY, pattern="PREFIXED", name="A.or ders")
    source = replace(copy, name="or ders")
    assert copied_acls(acl_partition(copy.of), acl_offset({copy: {source}}) or {}) == {copy: {source}}


def test_a_resource_without_copies_is_forgotten() -> None:
    assert acl_offset({}) is None


def test_partition_and_offset_hold_nothing_but_texts_as_kafkas_workers_want_it() -> None:
    partition, offset = acl_partition(Resource("LITERAL", "A.orders")), acl_offset({COPY: {READ}})
    assert {type(value) for value in (*partition.values(), *(offset or {}).values())} == {str}
    assert (is_acl_partition(partition), is_acl_partition({"cluster": "A", "topic": MEMBER})) == (True, False)


@pytest.mark.parametrize(
    "text", ["", "7", "[[1]]", '[["u","*","READ","ALLOW",[["orders"]]]]', '[["u","*",7,"ALLOW",[]]]', None]
)
def test_what_somebody_else_wrote_is_left_out(text: object) -> None:
    assert copied_acls(acl_partition(COPY.of), {"bindings": text}) == {}
