"""Every test of Kafka's has one of ours or a reason, and every mark names one of Kafka's."""

from __future__ import annotations

from docs.mm2_checklist import marked, names, reasons


def test_no_name_stands_twice_in_the_list() -> None:
    assert (len(names()), len(set(names()))) == (len(names()), len(names()))


def test_every_mark_names_a_test_of_kafkas() -> None:
    assert {name: ours for name, ours in marked().items() if name not in names()} == {}


def test_every_test_of_kafkas_has_one_of_ours_or_a_reason() -> None:
    assert [name for name in names() if name not in marked() and name not in reasons()] == []


def test_a_reason_stands_only_where_there_is_no_test() -> None:
    assert [name for name in reasons() if name in marked() or name not in names()] == []
