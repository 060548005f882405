from dataclasses import replace

import pytest

from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.mirror.acl_rules import SeenBindings, remote_bindings, to_add, to_remove
from mirror_connect.connectors.mirror.filters import NameFilter, TopicSelection
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy

READ = AclBinding("TOPIC", "LITERAL", "orders", "User:u", "*", "READ", "ALLOW")


def select(topics: str = "orders") -> TopicSelection:
    return TopicSelection(DefaultReplicationPolicy(), NameFilter.compile("topics", [topics]), NameFilter(None), "B")


def remote(**fields: str) -> list[AclBinding]:
    return sorted(remote_bindings([replace(READ, **fields)], select(), "A"))


def test_a_binding_is_copied_to_the_remote_topic_as_it_is() -> None:
    assert remote() == [replace(READ, name="A.orders")]


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAclTransformation")
@pytest.mark.parametrize(
    ("permission", "operation", "becomes"),
    [
        ("ALLOW", "ALL", "READ"),
        ("ALLOW", "DESCRIBE", "DESCRIBE"),
        ("ALLOW", "ALTER_CONFIGS", "ALTER_CONFIGS"),
        ("DENY", "ALL", "ALL"),
        ("DENY", "WRITE", "WRITE"),
    ],
)
def test_only_the_right_to_all_becomes_a_right_to_read(permission: str, operation: str, becomes: str) -> None:
    (binding,) = remote(permission=permission, operation=operation)
    assert (binding.permission, binding.operation) == (permission, becomes)


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAclFiltering")
@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "WRITE"},
        {"pattern": "PREFIXED"},
        {"resource": "GROUP"},
        {"name": "payments"},
        {"name": "*"},
    ],
    ids=str,
)
def test_other_bindings_are_not_copied(fields: dict[str, str]) -> None:
    assert remote(**fields) == []


def test_a_star_is_a_topic_of_that_name() -> None:
    found = remote_bindings([replace(READ, name="*")], select(".*"), "A")
    assert found == {replace(READ, name="A.*")}


@pytest.mark.parametrize(("prefix", "copied"), [("ord", ["A.ord"]), ("orders", ["A.orders"]), ("pay", [])])
def test_a_prefix_is_copied_when_asked_for_if_it_covers_a_copied_topic(prefix: str, copied: list[str]) -> None:
    binding = replace(READ, pattern="PREFIXED", name=prefix)
    found = remote_bindings([binding], select(), "A", prefixed_for=["orders"])
    assert [each.name for each in found] == copied


def test_a_prefixed_right_to_write_is_not_copied_either() -> None:
    binding = replace(READ, pattern="PREFIXED", name="ord", operation="WRITE")
    assert remote_bindings([binding], select(), "A", prefixed_for=["orders"]) == set()


def test_only_what_is_missing_is_added() -> None:
    other = replace(READ, host="h")
    assert to_add({READ, other}, {READ}) == [other]


def test_only_what_was_copied_before_is_removed() -> None:
    revoked, by_hand, gone = (replace(READ, principal=f"User:{name}") for name in ("revoked", "hand", "gone"))
    assert to_remove({READ, revoked, gone}, {READ}, {READ, revoked, by_hand}) == [revoked]


def test_a_copy_is_revoked_when_no_binding_of_the_source_stands_for_it_any_more() -> None:
    all_of_it, copy = replace(READ, operation="ALL"), replace(READ, name="A.orders")
    seen = SeenBindings()
    seen.note({READ: {copy}, all_of_it: {copy}})
    assert (seen.revoked({all_of_it}), seen.revoked(set())) == (set(), {copy})


def test_a_binding_that_the_source_still_gives_is_not_revoked_though_it_is_not_copied_now() -> None:
    prefixed, copy = replace(READ, pattern="PREFIXED"), replace(READ, pattern="PREFIXED", name="A.orders")
    seen = SeenBindings()
    seen.note({prefixed: {copy}})
    seen.note({prefixed: set()})
    assert seen.revoked({prefixed}) == set()


def test_what_was_removed_is_revoked_no_more() -> None:
    seen = SeenBindings()
    seen.note({READ: {READ}})
    seen.forget({READ})
    assert seen.revoked(set()) == set()


def test_rights_to_the_workers_own_topics_are_not_handed_over() -> None:
    identity = IdentityReplicationPolicy(source_alias="A")
    everything = TopicSelection(identity, NameFilter.compile("topics", [".*"]), NameFilter(None), "B", source_alias="A")
    bindings = [replace(READ, name="connect-configs"), replace(READ, name="orders")]
    found = remote_bindings(bindings, everything.with_reserved({"connect-configs"}), "A")
    assert [binding.name for binding in found] == ["orders"]
