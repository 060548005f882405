"""Faults are counted, joined with neighbours, listed while there is room, and withdrawn if they were none."""

from __future__ import annotations

import pytest

from mirror_connect.verify.findings import Fault, Findings, Kind


def missing(first: int, last: int | None = None, detail: str = "") -> Fault:
    last = first if last is None else last
    return Fault(Kind.MISSING, (first, last), None, last - first + 1, detail)


def doubled(source: int, target: int) -> Fault:
    return Fault(Kind.DOUBLED, (source, source), (target, target))


def test_neighbouring_faults_are_listed_as_one() -> None:
    findings = Findings()
    for fault in (missing(5), missing(6), missing(7, 9)):
        findings.add(fault)
    assert findings.listed == [missing(5, 9)]
    assert findings.counts == {Kind.MISSING: 5}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(missing(5), missing(7), id="an_offset_between_them"),
        pytest.param(missing(5), missing(6, detail="why"), id="another_detail"),
        pytest.param(missing(5), Fault(Kind.CHANGED, (6, 6), None), id="another_kind"),
        pytest.param(doubled(5, 10), doubled(6, 12), id="apart_on_the_target"),
        pytest.param(doubled(5, 10), Fault(Kind.DOUBLED, (6, 6), None), id="on_one_side_alone"),
    ],
)
def test_other_faults_stay_apart(first: Fault, second: Fault) -> None:
    assert first.joined(second) is None


def test_neighbours_on_both_sides_are_joined_on_both() -> None:
    assert doubled(5, 10).joined(doubled(6, 11)) == Fault(Kind.DOUBLED, (5, 6), (10, 11), 2)


def test_a_full_list_still_counts_and_still_grows_at_its_end() -> None:
    findings = Findings(most_listed=1)
    for fault in (missing(1), missing(2), missing(8)):
        findings.add(fault)
    assert (findings.listed, findings.faults()) == ([missing(1, 2)], 3)


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        pytest.param((0, 4), [missing(5, 9)], id="in_front_of_it"),
        pytest.param((10, 12), [missing(5, 9)], id="behind_it"),
        pytest.param((5, 6), [missing(7, 9)], id="its_beginning"),
        pytest.param((9, 20), [missing(5, 8)], id="its_end"),
        pytest.param((7, 7), [missing(5, 6), missing(8, 9)], id="its_middle"),
        pytest.param((0, 20), [], id="all_of_it"),
    ],
)
def test_a_fault_is_what_was_not_taken_back(taken: tuple[int, int], left: list[Fault]) -> None:
    assert missing(5, 9).without(*taken) == left


def test_a_record_of_the_target_alone_is_taken_back_by_its_offset_there() -> None:
    foreign = Fault(Kind.FOREIGN, None, (5, 6), 2)
    assert foreign.without(5, 5) == [Fault(Kind.FOREIGN, None, (6, 6), 1)]


def test_what_is_left_never_holds_more_records_than_there_were() -> None:
    # Three records in ten offsets, as in a compacted log.
    sparse = Fault(Kind.MISSING, (0, 9), None, 3)
    assert [part.count for part in sparse.without(5, 5)] == [2, 2]


def test_only_faults_of_the_kind_are_taken_back() -> None:
    findings = Findings()
    changed = Fault(Kind.CHANGED, (5, 5), (5, 5))
    findings.add(missing(4))
    findings.add(changed)
    findings.withdraw(Kind.MISSING, 4, 5)
    assert findings.listed == [changed]
    assert (findings.counts[Kind.MISSING], findings.faults()) == (0, 1)


def test_repeated_records_are_faults_for_the_strict_alone() -> None:
    findings = Findings(repeated=3)
    findings.add(missing(1))
    assert (findings.faults(), findings.faults(strict=True)) == (1, 4)


def test_compared_are_all_records_of_which_something_is_known() -> None:
    findings = Findings(equal=10, by_batch=9, repeated=2, gone_from_source=3, gone_from_target=4, behind=100)
    findings.add(missing(1))
    assert findings.compared == 20


def test_a_note_is_kept_once() -> None:
    findings = Findings()
    for line in ("a", "b", "a"):
        findings.note(line)
    assert findings.notes == ["a", "b"]


def test_the_json_has_every_kind_and_both_places() -> None:
    findings = Findings(equal=2, behind=1)
    findings.add(missing(4, detail="lost"))
    shown = findings.as_json()
    assert shown["faults"] == {
        "missing": 1,
        "doubled": 0,
        "reordered": 0,
        "changed": 0,
        "foreign": 0,
        "unreadable": 0,
    }
    assert shown["listed"] == [
        {"kind": "missing", "records": 1, "source_offsets": [4, 4], "target_offsets": None, "detail": "lost"}
    ]
    assert (shown["not_copied_yet_offsets"], shown["error"]) == (1, None)


def test_a_withdrawn_record_leaves_the_rest_of_its_range() -> None:
    found = Findings()
    found.add(Fault(Kind.MISSING, (5, 9), None, 5))
    found.withdraw(Kind.MISSING, 7, 7)
    assert [(fault.source, fault.count) for fault in found.listed] == [((5, 6), 2), ((8, 9), 2)]
    assert found.counts[Kind.MISSING] == 4
