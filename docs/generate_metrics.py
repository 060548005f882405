"""Renews the tables of series and alerts in docs/metrics.md: `python -m docs.generate_metrics`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mirror_connect.app.exposition import kafka_metrics, own_series
from mirror_connect.app.exposition.kafka_names import NameSet

PAGE: Final = Path(__file__).with_name("metrics.md")


def own_rows() -> list[Sequence[str]]:
    """A row for each series of this product."""
    return [
        (f"`{each.name}`", each.kind.value, ", ".join(each.labels), each.unit, each.meaning) for each in own_series.ALL
    ]


def kafka_rows() -> list[Sequence[str]]:
    """A row for each metric of Kafka's, with both names."""
    return [
        (f"`{each.jmx_name}`", f"`{each.named(NameSet.REPORTER)}`", ", ".join(each.labels(NameSet.JMX)), each.meaning)
        for each in kafka_metrics.ALL
    ]


TABLES: Final = {
    "Series of mirror-connect": (("series", "type", "labels", "unit", "meaning"), own_rows),
    "Series under Kafka's names": (
        ("`metrics.names=jmx`", "`metrics.names=reporter`", "labels", "meaning"),
        kafka_rows,
    ),
}
_ORIGIN: Final = "<!-- Made from mirror_connect/app/exposition; make docs renews it -->"
_OLD: Final = re.compile(r"<!-- Made from mirror_connect/app/exposition[^\n]*-->\n\n?(?:\|[^\n]*\n)*\n?")


def renewed(page: str) -> str:
    """The page with the tables as the code has them now. ValueError if a section has no place for its table."""
    for title, (heads, rows) in TABLES.items():
        before, heading, rest = page.partition(f"\n### {title}\n")
        lines = [_line(heads), _line(["---"] * len(heads)), *(_line(each) for each in rows())]
        table = f"{_ORIGIN}\n\n" + "".join(f"{each}\n" for each in lines) + "\n"
        rest, count = _OLD.subn(table.replace("\\", r"\\"), rest, count=1)
        if not heading or count != 1:
            raise ValueError(f"docs/metrics.md has no place for a table in the section {title}")
        page = before + heading + rest
    return page.rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
