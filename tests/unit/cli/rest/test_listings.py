"""Tables: in a pipe every row is one line without colours; a narrow terminal loses columns, never a part of a name."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from rich.text import Text

from mirror_connect.cli.rest.listings import Column, Listing, View
from mirror_connect.cli.rest.output import print_view

LISTING = Listing(
    [
        Column("name", lambda row: row["name"]),
        Column("much", lambda row: "x" * 20, spare=True),
        Column("more", lambda row: Text("y" * 20, style="red"), spare=True),
        Column("number", lambda row: str(row["number"]), right=True),
        Column("seldom", lambda row: "z", wide=True),
    ],
    [{"name": "orders", "number": 12}, {"name": "a name\x1b[31m", "number": 3}],
    "Nothing.",
)


def shown(width: int, *, wide: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor")
    console.print(View({}, [LISTING]).renderable(width, wide=wide))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("width", "titles"),
    [(100, {"name", "much", "more", "number"}), (50, {"name", "much", "number"}), (30, {"name", "number"})],
)
def test_columns_that_do_not_fit_are_left_out(width: int, titles: set[str]) -> None:
    text = shown(width)
    assert {each for each in ("name", "much", "more", "number", "seldom") if each in text} == titles


def test_a_long_name_is_folded_and_not_cut() -> None:
    listing = Listing([Column("name", lambda row: row["name"])], [{"name": "n" * 50}], "")
    console = Console(file=io.StringIO(), width=20)
    console.print(listing.table(20, wide=False))
    assert console.file.getvalue().count("n") == 50 + 1  # type: ignore[attr-defined]


def test_a_terminal_gets_colours_and_no_escape_of_a_name() -> None:
    text = shown(100)
    assert ("\x1b[31my" in text, "a name\\x1b[31m" in text) == (True, True)


def test_wide_leaves_nothing_out() -> None:
    assert "seldom" in shown(100, wide=True)


def test_a_wide_table_is_shown_with_wide_alone() -> None:
    more = Listing([Column("name", lambda row: row["name"])], LISTING.rows, "", "More", wide=True)
    for wide in (False, True):
        console = Console(file=io.StringIO(), width=100)
        console.print(View({}, [LISTING, more]).renderable(100, wide=wide))
        assert ("More" in console.file.getvalue()) is wide  # type: ignore[attr-defined]


def test_a_pipe_gets_whole_lines_without_colours_or_blanks_behind(capsys: pytest.CaptureFixture[str]) -> None:
    print_view(View({}, [LISTING], ["a line " + "w" * 300]), "table", Console())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name" + " " * 12 + "much" + " " * 18 + "more" + " " * 18 + "number"
    assert [line for line in lines if "\x1b" in line or line != line.rstrip()] == []
    assert lines[-1] == "a line " + "w" * 300


def test_no_color_is_obeyed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    console.print(View({}, [LISTING]).renderable(100, wide=False))
    assert "\x1b[31m" not in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("output", "text"), [("json", '{\n  "a": "é"\n}\n'), ("yaml", "a: é\n")])
def test_json_and_yaml_are_the_body(capsys: pytest.CaptureFixture[str], output: str, text: str) -> None:
    print_view(View({"a": "é"}, [LISTING]), output, Console())
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("output", ["json", "yaml", "table"])
def test_no_output_has_what_a_terminal_obeys(capsys: pytest.CaptureFixture[str], output: str) -> None:
    name = "a\x9b2J\x1b[2Jb"
    listing = Listing([Column("n", lambda row: str(row["n"]))], [{"n": name}], "", f"Of {name}")
    print_view(View({"n": name}, [listing]), output, Console())
    out = capsys.readouterr().out
    assert not {"\x9b", "\x1b"} & set(out)
    if output == "json":
        assert json.loads(out) == {"n": name}
