"""Makes the dashboard of mirror-connect for Grafana: `python -m deploy.grafana.generate`.

panels.py has the panels. A table is read and changed more easily than Grafana's JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from deploy.grafana.panels import ROWS, Panel

DASHBOARD: Final = Path(__file__).with_name("mirror-connect.json")
WIDTH: Final = 24
_DATA: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """As Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": _at(0, y, WIDTH, 1),
            }
        )
        y += 1
        x = tallest = 0
        for panel in row:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            panels.append({"id": len(panels) + 1, **_panel(panel), "gridPos": _at(x, y, panel.width, panel.height)})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return {
        "title": "mirror-connect",
        "uid": "mirror-connect",
        "description": "Links between Kafka clusters: lag, latency, problems. What each series means: docs/metrics.md.",
        "tags": ["kafka", "mirror-connect"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": panels,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.alarm is not None:
        steps.append({"color": "red", "value": panel.alarm})
    table = panel.kind == "table"
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _DATA,
        "targets": [
            {"refId": chr(65 + place), "expr": expression, "legendFormat": legend, "datasource": _DATA}
            | ({"format": "table", "instant": True} if table else {})
            for place, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {},
    }
    if panel.kind == "timeseries":
        # A gap is unknown, and must not look like a value.
        made["fieldConfig"]["defaults"] |= {"min": 0, "custom": {"spanNulls": False, "fillOpacity": 10}}
        made["options"] = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if panel.kind == "stat":
        made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    if table:
        made["transformations"] = [
            {"id": "organize", "options": {"excludeByName": {"Time": True, "instance": True, "job": True}}}
        ]
    return made


def _variables() -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {}}
    ]
    for name in ("source", "target", "connector"):
        query = f"label_values(mirror_connect_connector_state, {name})"
        named.append(
            {
                "name": name,
                "type": "query",
                "datasource": _DATA,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
                "sort": 1,
            }
        )
    return named


def _at(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(text(), "utf-8")
