"""README quotes what was measured, the costs too, and nothing that RESULTS.md does not have; what is old it calls old."""

from __future__ import annotations

import re

import pytest

from benchmarks.comparison import Row, rows
from benchmarks.store import load
from tests.paths import ROOT

README = (ROOT / "README.md").read_text("utf-8")
TABLE = README.split("| measured of both |")[1].split("\n\n")[0]
QUOTED = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TABLE.splitlines()[2:]]
MEASURED = {row.what: row for part in load().values() for row in rows(part.figures)}

# Part → how README calls its figures old.
OLD = {"memory": "**The idle memory is old**", "following": "In an old measurement"}


@pytest.mark.parametrize("quoted", QUOTED, ids=lambda quoted: quoted[0])
def test_a_figure_in_the_readme_is_the_one_that_is_stored(quoted: tuple[str, str, str]) -> None:
    row: Row = MEASURED[quoted[0]]
    assert quoted[1:] == (row.said(row.ours), row.said(row.other))


def test_the_readme_quotes_what_is_worse_beside_what_is_better() -> None:
    told = {quoted[0] for quoted in QUOTED}
    assert {
        "Idle, one connector of two tasks: memory (PSS)",
        "From process start to the first record",
        "2,000 records/s: CPU",
    } <= told
    # Of the parts that are quoted, no cost is left out.
    assert [row.what for row in MEASURED.values() if row.better is False and "Copying beside" not in row.what] == [
        row.what for row in MEASURED.values() if row.better is False and row.what in told
    ]


def test_what_follow_compared_is_the_stored_share() -> None:
    (figures,) = load()["following"].figures
    said = re.search(r"compared ([\d.]+) % of the records, and only counted another (\d+) %", " ".join(README.split()))
    assert said
    assert said.groups() == (f"{100 * figures['compared']:.1f}", f"{100 * figures['counted']:.0f}")


def test_figures_of_a_dirty_tree_are_called_old_and_no_others() -> None:
    quoted = {row[0] for row in QUOTED}
    dirty = {
        name
        for name, part in load().items()
        if part.dirty and (name == "following" or any(row.what in quoted for row in rows(part.figures)))
    }
    assert {name for name, words in OLD.items() if words in " ".join(README.split())} == dirty
