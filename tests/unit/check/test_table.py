"""The table: within the terminal's width, and no name of a property is cut."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from mirror_connect.check.judgement import Verdict
from mirror_connect.check.report import Finding, Part, Report, VerifyLink
from mirror_connect.check.table import print_report

SHORT = "connector.client.config.override.policy"
LONG = "us-west->us-east.source.consumer.sasl.login.callback.handler.class"


@pytest.mark.parametrize(
    ("width", "lines"),
    [(100, ["us-west->us-east.source.consumer.sasl.", "login.callback.handler.class"]), (200, [LONG])],
)
def test_a_name_is_whole_or_goes_on_behind_a_dot(width: int, lines: list[str]) -> None:
    text = "Did you mean target.cluster.sasl.mechanism? " * 3
    found = [Finding(Verdict.DIFFERENT, 1, name, "value " * 9, text) for name in (SHORT, LONG)]
    output = StringIO()
    print_report(Report("f", "mm2", [Part("f", "a file", found)]), Console(width=width, file=output))
    shown = output.getvalue().splitlines()
    assert max(map(len, shown)) <= width
    assert all(any(each in line for line in shown) for each in (SHORT, *lines))
    assert sum(line.count("target.cluster.sasl.mechanism?") for line in shown) == 6


@pytest.mark.parametrize("odd", ["\x1b]0;title\x07", "\x9b31m", "\ud800", "\u202e", "a\rb", "[red]x[/nope]"])
def test_no_name_or_value_writes_control_characters_to_the_terminal(odd: str) -> None:
    found = [Finding(verdict, 1, odd, odd, odd, odd) for verdict in Verdict]
    links = [
        VerifyLink(odd, ("--topics", odd), file=odd, clients={"--source": odd}, note=odd),
        VerifyLink(odd, (), impossible=odd),
    ]
    output = StringIO()
    print_report(Report(odd, "mm2", [Part(odd, "a file", found)], links, [odd]), Console(width=100, file=output))
    shown = output.getvalue()
    assert "".join(each for each in shown if not each.isprintable() and each != "\n") == ""
    assert shown.count(odd.encode("ascii", "backslashreplace").decode() if odd.isprintable() else "\\") >= 10
