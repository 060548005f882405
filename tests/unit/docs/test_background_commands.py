"""Each command of users' guides is run by a test or says why not, and the page shows what Kafka has changed."""

from __future__ import annotations

import re
from collections import Counter

from tests.e2e.background_commands import COMMANDS
from tests.paths import ROOT

HEADING = "## Commands of older guides"
# How many commands each guide has, counted in its text.
COUNTED = {
    "geo-replication": 7,
    "docker-compose demo": 12,
    "MirrorMaker 2 guide": 6,
    "introduction": 1,
    "best practices": 3,
}
_ROW = re.compile(r"^\| `(?P<old>.+?)` \| `(?P<new>.+?)` \|", re.MULTILINE)


def test_every_command_of_every_guide_is_in_the_table_once() -> None:
    assert len({row.command for row in COMMANDS}) == len(COMMANDS)
    assert Counter(row.guide for row in COMMANDS) == COUNTED


def test_the_tests_that_run_them_exist() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    run = [row for row in COMMANDS if row.today]
    assert [row.run_by for row in run if f"def {row.run_by}(" not in sources] == []
    assert [row.command for row in COMMANDS if not row.today and row.run_by.startswith("test_")] == []


def test_compatibility_has_what_kafka_has_changed() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    shown = [(_parts(match["old"]), _parts(match["new"])) for match in _ROW.finditer(section)]
    changed = [(row.command, row.today) for row in COMMANDS if row.changed]
    assert changed
    assert [
        command
        for command, today in changed
        if not any(_in_order(old, command) and _in_order(new, today) for old, new in shown)
    ] == []
    assert [old for old, _ in shown if not any(_in_order(old, command) for command, _ in changed)] == []


def _parts(shown: str) -> list[str]:
    """What stands around the dots and names that a row of the page has in the place of values."""
    return [part.strip() for part in re.split(r"…|NAME", shown) if part.strip()]


def _in_order(parts: list[str], command: str) -> bool:
    return re.search(".*".join(re.escape(part) for part in parts), command) is not None
