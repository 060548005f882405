"""The panels of the dashboard, row by row. generate.py makes Grafana's JSON of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SELECTED: Final = 'source=~"$source",target=~"$target",connector=~"$connector"'
NOT_FETCH: Final = f'{{{SELECTED},request!="Fetch"}}'
OF: Final = f"{{{SELECTED}}}"
_LINK: Final = "{{source}}->{{target}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """`queries`: (expression, legend). `kind`: stat, timeseries or table. `alarm`: from this value on it is red."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    meaning: str = ""
    alarm: float | None = None


def _stat(title: str, expression: str, unit: str, meaning: str, alarm: float | None = None) -> Panel:
    return Panel(title, [(expression, "")], unit, "stat", 4, 4, meaning, alarm)


ROWS: Final[Sequence[tuple[str, Sequence[Panel]]]] = (
    (
        "Links",
        (
            _stat(
                "Behind",
                f"max(mirror_connect_lag_seconds{OF})",
                "s",
                "Age of the oldest record that is not on the target.",
                60,
            ),
            _stat(
                "Records missing",
                f"sum(mirror_connect_lag_records{OF})",
                "short",
                "Offsets that are not on the target.",
            ),
            _stat("Records", f"sum(rate(mirror_connect_records_total{OF}[1m]))", "cps", "Acknowledged each second."),
            _stat(
                "Problems", f"sum(mirror_connect_problems{OF})", "short", "Present ones of all connectors and tasks.", 1
            ),
            _stat(
                "Partitions with unknown lag",
                f'sum(mirror_connect_partitions{{{SELECTED},state="unknown"}})',
                "short",
                "Their task or the source cluster tells nothing.",
                1,
            ),
            _stat(
                "Tasks not running",
                f'sum(mirror_connect_task_state{{{SELECTED},state!~"RUNNING|PAUSED|STOPPED"}})',
                "short",
                "FAILED, UNASSIGNED or RESTARTING.",
                1,
            ),
            Panel(
                "Lag in seconds",
                [(f"max by (source, target) (mirror_connect_lag_seconds{OF})", _LINK)],
                "s",
                meaning="Age of the oldest record that is not on the target. 0 at rest. A gap: unknown.",
            ),
            Panel("Lag in records", [(f"sum by (source, target) (mirror_connect_lag_records{OF})", _LINK)]),
            Panel(
                "Records each second",
                [
                    (f"sum by (source, target) (rate(mirror_connect_records_total{OF}[1m]))", _LINK),
                    (
                        f"sum by (source, target) (rate(mirror_connect_filtered_records_total{OF}[1m])) > 0",
                        f"{_LINK} dropped by a filter",
                    ),
                ],
                "cps",
            ),
            Panel(
                "Bytes each second",
                [(f"sum by (source, target) (rate(mirror_connect_bytes_total{OF}[1m]))", _LINK)],
                "Bps",
            ),
            Panel(
                "Latency, source to target",
                [
                    (
                        f"histogram_quantile({part}, sum by (le, source, target) "
                        f"(rate(mirror_connect_replication_latency_seconds_bucket{OF}[1m])))",
                        f"p{part * 100:g} {_LINK}",
                    )
                    for part in (0.5, 0.99)
                ],
                "s",
                meaning="Age of records when the target had acknowledged them.",
            ),
            Panel(
                "Partitions by lag",
                [(f"sum by (state) (mirror_connect_partitions{OF})", "{{state}}")],
                meaning="Behind, at rest, or unknown.",
            ),
        ),
    ),
    (
        "Topics",
        (
            Panel(
                "The 20 topics that are most behind",
                [(f"topk(20, max by (topic) (mirror_connect_lag_seconds{OF}))", "{{topic}}")],
                "s",
                width=12,
            ),
            Panel(
                "The 20 topics with the most records",
                [(f"topk(20, sum by (topic) (rate(mirror_connect_records_total{OF}[1m])))", "{{topic}}")],
                "cps",
                width=12,
            ),
        ),
    ),
    (
        "Problems and tasks",
        (
            Panel(
                "Present problems",
                [(f"sort_desc(time() - mirror_connect_problem_start_timestamp_seconds{OF})", "")],
                "s",
                "table",
                24,
                meaning="The value is for how long. docs/troubles.md says what to do.",
            ),
            Panel(
                "States of tasks",
                [(f"sum by (state) (mirror_connect_task_state{OF})", "{{state}}")],
            ),
            Panel(
                "Restarts of tasks within 5 minutes",
                [(f"sum by (connector) (increase(mirror_connect_task_restarts_total{OF}[5m]))", "{{connector}}")],
                meaning="Without the planned ends of epochs.",
            ),
            Panel(
                "Age of the last offset commit",
                [
                    (
                        f"max by (connector, task) (mirror_connect_source_offset_age_seconds{OF})",
                        "{{connector}}-{{task}}",
                    )
                ],
                "s",
                meaning="A crash repeats about so much.",
            ),
            Panel(
                "Age of lookups",
                [
                    (
                        f"max by (connector, lookup) (mirror_connect_lookup_age_seconds{OF})",
                        "{{connector}} {{lookup}}",
                    )
                ],
                "s",
                meaning="Of statements. More than twice their refresh interval: they can't be renewed.",
            ),
        ),
    ),
    (
        "Sampling verification (verify.follow.enabled)",
        (
            Panel(
                "Copied records that are verified",
                [
                    (
                        f"sum by (connector) (mirror_connect_verify_{how}_records_total{OF}) / "
                        f"sum by (connector) (mirror_connect_verify_copied_records_total{OF})",
                        f"{{{{connector}}}} {how}",
                    )
                    for how in ("compared", "counted")
                ],
                "percentunit",
                meaning="Compared with their source, or counted only. A gap: not verified.",
            ),
            Panel(
                "Records with a fault",
                [(f"sum by (connector, kind) (mirror_connect_verify_findings_total{OF})", "{{connector}} {{kind}}")],
                meaning="Found since the worker process began. docs/verify.md has the kinds.",
            ),
            Panel(
                "Age of the last result",
                [(f"max by (connector) (mirror_connect_verify_result_age_seconds{OF})", "{{connector}}")],
                "s",
            ),
        ),
    ),
    (
        "Groups: if they failed over now",
        (
            Panel(
                "Records read once more",
                [(f"topk(20, max by (group) (mirror_connect_group_read_again_records{OF}))", "{{group}}")],
                width=12,
            ),
            Panel(
                "Records not read",
                [(f"topk(20, max by (group) (mirror_connect_group_skipped_records{OF}))", "{{group}}")],
                width=12,
            ),
        ),
    ),
    (
        "What was done",
        (
            Panel(
                "Batches each second, by what was done",
                [(f"sum by (action) (rate(mirror_connect_batches_total{OF}[1m]))", "{{action}}")],
                "cps",
            ),
            Panel(
                "Mean time of requests",
                [
                    (
                        f"sum by (side, request) (rate(mirror_connect_request_seconds_total{NOT_FETCH}[1m])) / "
                        f"sum by (side, request) (rate(mirror_connect_requests_total{NOT_FETCH}[1m]))",
                        "{{request}} ({{side}})",
                    )
                ],
                "s",
                meaning="Without Fetch, which waits at the broker for records.",
            ),
            Panel(
                "Requests without an answer, each second",
                [
                    (
                        f"sum by (side, request) (rate(mirror_connect_request_errors_total{OF}[1m]))",
                        "{{request}} ({{side}})",
                    )
                ],
                "cps",
            ),
            Panel(
                "Throttled by quotas",
                [(f"sum by (side) (rate(mirror_connect_request_throttled_seconds_total{OF}[1m]))", "{{side}}")],
                "s",
                meaning="Seconds each second for which brokers told to wait.",
            ),
            Panel(
                "Bytes saved by keeping the compression",
                [(f"sum by (source, target) (mirror_connect_compression_saved_bytes{OF})", _LINK)],
                "bytes",
            ),
            Panel(
                "Buffers of tasks",
                [
                    (
                        f"mirror_connect_buffered_bytes{OF} / mirror_connect_buffer_limit_bytes{OF}",
                        "{{connector}}-{{task}}",
                    )
                ],
                "percentunit",
                meaning="Full: the target is slower than the source.",
            ),
        ),
    ),
    (
        "The machine",
        (
            Panel(
                "Processor time",
                [("rate(mirror_connect_process_cpu_seconds_total[1m])", "{{instance}} {{process}}")],
                "percentunit",
            ),
            Panel("Memory", [("mirror_connect_process_memory_bytes", "{{instance}} {{process}}")], "bytes"),
            Panel("Memory of Spark's JVM", [("jvm_memory_used_bytes", "{{instance}} {{area}}")], "bytes"),
            Panel(
                "Spark's slots",
                [
                    ("mirror_connect_spark_slots", "{{instance}}: there are"),
                    ("mirror_connect_spark_slots_wanted", "{{instance}}: wanted"),
                ],
            ),
            Panel(
                "Workers that answer and lead",
                [("up", "{{instance}} answers"), ("mirror_connect_worker_leads", "{{instance}} leads")],
            ),
            Panel(
                "Tasks of each worker",
                [(f'sum by (instance) (mirror_connect_task_state{{{SELECTED},state="RUNNING"}})', "{{instance}}")],
                meaning="Running ones. A worker without tasks has no line.",
            ),
            Panel(
                "Time of the JVM's collections",
                [("rate(jvm_gc_collection_seconds_sum[1m])", "{{instance}} {{gc}}")],
                "percentunit",
            ),
        ),
    ),
)
