"""Draws a dashboard as a Prometheus has its data: `python -m docs.draw_dashboard URL MINUTES [--strimzi] > FILE.svg`.

Ours (deploy/grafana), or what Strimzi's dashboard of MirrorMaker 2 asks for. A Grafana draws them better; this shows them
where there is none.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import httpx

from deploy.grafana.panels import ROWS, Panel

CELL, ROW_HEIGHT, MARGIN, HEAD = 50, 26, 10, 22
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
MOST_LINES: Final = len(COLOURS)
_TEXT: Final = 'font-family="sans-serif" font-size="11"'
Line = tuple[str, list[tuple[float, float]]]
Rows = Sequence[tuple[str, Sequence[Panel]]]
STRIMZI: Final = "jmx/strimzi-kafka-mirror-maker-2"
_QUERIES: Final = Path(__file__).parents[1] / "tests" / "fixtures" / "metrics" / "strimzi-queries.jsonl"


def drawn(url: str, minutes: float, rows: Rows = ROWS) -> str:
    """The SVG."""
    until = time.time()
    since = until - minutes * 60
    parts: list[str] = []
    top = MARGIN
    with httpx.Client(base_url=url, timeout=30) as prometheus:
        for title, panels in rows:
            parts.append(f'<text x="{MARGIN}" y="{top + 14}" {_TEXT} font-weight="bold">{escape(title)}</text>')
            top += HEAD
            left = tallest = 0
            for panel in panels:
                if left + panel.width > 24:
                    left, top, tallest = 0, top + tallest * ROW_HEIGHT, 0
                lines = list(_lines(prometheus, panel, since, until))
                parts += _panel(panel, lines, MARGIN + left * CELL, top, (since, until))
                left, tallest = left + panel.width, max(tallest, panel.height)
            top += tallest * ROW_HEIGHT + MARGIN
    width = 24 * CELL + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">'
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def strimzis_rows() -> Rows:
    """A panel for each series that Strimzi's dashboard asks for, but those that Kubernetes has."""
    asked = [json.loads(line) for line in _QUERIES.read_text("utf-8").splitlines()]
    panels = [
        _strimzis_panel(each)
        for each in asked
        if each["dashboard"] == STRIMZI and not each["metric"].startswith("container_")
    ]
    return [("Strimzi's dashboard of MirrorMaker 2: the series that its panels ask for", panels)]


def _strimzis_panel(asked: dict[str, Any]) -> Panel:
    own = [each for each in asked["matchers"] if not each[1].startswith("$") and not each[0].startswith("strimzi_io_")]
    selected = ",".join(f"{name}{operator}{json.dumps(value)}" for name, operator, value in own)
    series = f"{asked['metric']}{{{selected}}}"
    by = [name for name in asked["by"] if name != "kubernetes_pod_name"]
    expression = f"sum by ({','.join(by)}) ({f'rate({series}[1m])' if asked['rate'] else series})"
    legend = " ".join(f"{{{{{name}}}}}" for name in by)
    return Panel(asked["metric"].removeprefix("kafka_connect_"), [(expression, legend)], height=6)


def _lines(prometheus: httpx.Client, panel: Panel, since: float, until: float) -> Iterator[Line]:
    for expression, legend in panel.queries:
        asked = re.sub(r"\$(source|target|connector)", ".*", expression)
        step = max(1.0, (until - since) / 200)
        parameters = {"query": asked, "start": str(since), "end": str(until), "step": str(step)}
        for found in prometheus.get("/api/v1/query_range", params=parameters).json()["data"]["result"]:
            values = [(float(at), float(value)) for at, value in found["values"]]
            yield _named(legend, found["metric"]), [each for each in values if each[1] == each[1]]


def _named(legend: str, labels: dict[str, Any]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda name: str(labels.get(name[1], "")), legend)


def _panel(panel: Panel, lines: Sequence[Line], x: int, y: int, span: tuple[float, float]) -> Iterator[str]:
    width, height = panel.width * CELL - 6, panel.height * ROW_HEIGHT - 6
    yield f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#fafafa" stroke="#d0d0d0"/>'
    yield f'<text x="{x + 6}" y="{y + 15}" {_TEXT}>{escape(panel.title)}</text>'
    points = [value for _, values in lines for _, value in values]
    if not points:
        yield f'<text x="{x + 6}" y="{y + 40}" {_TEXT} fill="#909090">no data</text>'
        return
    if panel.kind == "stat":
        newest = lines[0][1][-1][1]
        yield f'<text x="{x + 6}" y="{y + 56}" font-family="sans-serif" font-size="26">{_short(newest, panel.unit)}</text>'
        return
    most = max(points) or 1.0
    left, right, top, bottom = x + 46, x + width - 8, y + 26, y + height - 34
    for part in (0.0, 0.5, 1.0):
        level = bottom - part * (bottom - top)
        yield f'<line x1="{left}" x2="{right}" y1="{level}" y2="{level}" stroke="#e4e4e4"/>'
        yield f'<text x="{left - 4}" y="{level + 4}" text-anchor="end" {_TEXT}>{_short(part * most, panel.unit)}</text>'
    for number, (_, values) in enumerate(lines[:MOST_LINES]):
        places = [
            (left + (at - span[0]) / (span[1] - span[0]) * (right - left), bottom - value / most * (bottom - top))
            for at, value in values
        ]
        path = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="1.5"/>'
    across = x + 6
    for number, (name, _) in enumerate(lines[:MOST_LINES]):
        if not name or across + 12 + 6.2 * len(name) > x + width:
            break
        yield f'<rect x="{across}" y="{y + height - 18}" width="8" height="8" fill="{COLOURS[number]}"/>'
        yield f'<text x="{across + 11}" y="{y + height - 10}" {_TEXT}>{escape(name)}</text>'
        across += 18 + round(6.2 * len(name))


def _short(value: float, unit: str) -> str:
    ending = {"s": " s", "bytes": "B", "Bps": "B/s", "cps": "/s", "percentunit": ""}.get(unit, "")
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {letter}{ending.strip()}"
    return f"{value:.3g}{ending}"


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--strimzi", action="store_true")
    options = parser.parse_args()
    sys.stdout.write(drawn(options.url, options.minutes, strimzis_rows() if options.strimzi else ROWS))


if __name__ == "__main__":
    _main()
