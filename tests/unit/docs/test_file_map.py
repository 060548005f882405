"""docs/files.md and docs/rooms.svg are made from the package."""

from __future__ import annotations

from docs import draw_rooms, generate_file_map
from tests.paths import ROOT


def test_the_file_map_is_made_from_the_modules() -> None:
    assert generate_file_map.document() == (ROOT / "docs" / "files.md").read_text("utf-8"), generate_file_map.COMMAND


def test_the_drawing_is_made_from_the_imports_and_no_arrow_leads_upward() -> None:
    assert draw_rooms.document() == (ROOT / "docs" / "rooms.svg").read_text("utf-8"), draw_rooms.COMMAND
    assert draw_rooms.Drawing().upward() == []
