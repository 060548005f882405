"""ACLs as values: their resource and their order."""

from __future__ import annotations

from dataclasses import replace

from mirror_connect.connectors.acls import ALLOW, LITERAL, PREFIXED, TOPIC, AclBinding, Resource

READ = AclBinding(TOPIC, LITERAL, "orders", "User:a", "*", "READ", ALLOW)


def test_a_binding_is_of_its_pattern_and_name() -> None:
    assert READ.of == Resource("LITERAL", "orders")
    assert replace(READ, pattern=PREFIXED).of != READ.of
    assert replace(READ, principal="User:b").of == READ.of


def test_its_texts_are_all_its_members_in_their_order() -> None:
    assert READ.texts == ("TOPIC", "LITERAL", "orders", "User:a", "*", "READ", "ALLOW")
    assert AclBinding(*READ.texts) == READ


def test_bindings_are_sorted_by_name_before_principal() -> None:
    later = replace(READ, name="payments", principal="User:0")
    assert sorted([later, READ]) == [READ, later]
