"""deploy/grafana: the dashboard is made from its table, and asks for series and labels that exist."""

from __future__ import annotations

import json
import re

from deploy.grafana.generate import DASHBOARD, dashboard, text
from deploy.grafana.panels import ROWS
from mirror_connect.app.exposition.kafka_names import Kind
from mirror_connect.app.exposition.own_series import ALL
from tests.fakes.measured_process import whole

OF_THE_PROCESS = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
_NAME = re.compile(r"\b((?:mirror_connect|jvm|process)_\w+|up)\b(?:\{([^}]*)\})?")


def test_the_file_is_made_from_the_table() -> None:
    assert DASHBOARD.read_text("utf-8") == text(), "run: python -m deploy.grafana.generate"


def test_every_query_asks_for_series_and_labels_that_exist() -> None:
    known = {each.name: set(each.labels) for each in ALL}
    known |= {f"{each.name}_bucket": {*each.labels, "le"} for each in ALL if each.kind is Kind.HISTOGRAM}
    shown = whole().text()
    for _, panels in ROWS:
        for panel in panels:
            for expression, _ in panel.queries:
                for name, matchers in _NAME.findall(expression):
                    if name in known:
                        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers)) <= known[name], panel.title
                    else:
                        assert name in OF_THE_PROCESS or f"\n{name}" in shown, f"{panel.title}: {name}"


def test_every_own_series_that_a_person_would_look_for_is_drawn() -> None:
    drawn = " ".join(expression for _, panels in ROWS for panel in panels for expression, _ in panel.queries)
    missing = [each.name for each in ALL if each.name not in drawn]
    # What alerts or other tools ask for.
    assert set(missing) <= {
        "mirror_connect_build_info",
        "mirror_connect_spark_up",
        "mirror_connect_connector_state",
        "mirror_connect_connector_tasks",
        "mirror_connect_task_silent_seconds",
        "mirror_connect_task_attempts_total",
        "mirror_connect_task_lease_seconds",
        "mirror_connect_worker_lease_seconds",
        "mirror_connect_task_epochs_total",
        "mirror_connect_offset_commits_total",
        "mirror_connect_offset_commit_failures_total",
        "mirror_connect_batch_bytes_total",
        "mirror_connect_request_sent_bytes_total",
        "mirror_connect_request_received_bytes_total",
        "mirror_connect_group_untranslated_partitions",
        "mirror_connect_group_synced_timestamp_seconds",
        "mirror_connect_process_memory_bytes",
        "mirror_connect_process_cpu_seconds_total",
    }


def test_panels_lie_beside_and_below_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_a_gap_is_not_drawn_as_a_value() -> None:
    panels = [each for each in json.loads(text())["panels"] if each["type"] == "timeseries"]
    assert panels
    assert not any(each["fieldConfig"]["defaults"]["custom"]["spanNulls"] for each in panels)
