"""Renews the tables of settings in docs/compatibility.md: `python -m docs.generate_compatibility`.

The rows are in mirror_connect/check, where `mirror-connect check` judges with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mirror_connect.check.connector_deviations import OF_CHECKPOINT, OF_HEARTBEAT, OF_SOURCE
from mirror_connect.check.deviations import Row, markdown_table
from mirror_connect.check.worker_deviations import OF_WORKERS

PAGE: Final = Path(__file__).with_name("compatibility.md")
TABLES: Final[Mapping[str, tuple[str, Sequence[Row]]]] = {
    "The worker": ("worker_deviations.py", OF_WORKERS),
    "MirrorSourceConnector": ("connector_deviations.py", OF_SOURCE),
    "MirrorCheckpointConnector": ("connector_deviations.py", OF_CHECKPOINT),
    "MirrorHeartbeatConnector": ("connector_deviations.py", OF_HEARTBEAT),
}
_OLD: Final = re.compile(r"(?:<!-- The rows are in [^\n]*-->\n\n)?\| property \| here \| note \|\n(?:\|[^\n]*\n)+")


def renewed(page: str) -> str:
    """The page with the tables as the rows are now. ValueError if a section has no such table."""
    for title, (file, rows) in TABLES.items():
        before, heading, rest = page.partition(f"\n## {title}\n")
        section, following, after = rest.partition("\n## ")
        table = (
            f"<!-- The rows are in mirror_connect/check/{file}; make docs renews them -->\n\n{markdown_table(rows)}\n"
        )
        section, count = _OLD.subn(table.replace("\\", r"\\"), section, count=1)
        if not heading or count != 1:
            raise ValueError(f"docs/compatibility.md has no table of settings in the section {title}")
        page = before + heading + section + following + after
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
