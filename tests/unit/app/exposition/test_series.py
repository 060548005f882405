"""What a scrape shows of what tasks have told, and that it shows nothing that is not known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mirror_connect.app.exposition.exposition import ExpositionSettings, pieces_of
from mirror_connect.app.exposition.page import AT_ONCE, Format
from mirror_connect.app.exposition.partition_rows import Detail
from mirror_connect.connectors.task_protocol import EPOCH_ENDED, FAILED, FINISHED, RUNNING, TaskId
from mirror_connect.connectors.verified_records import VerifiedRecords
from tests.fakes.measured_process import (
    CHECKPOINTS,
    LINK,
    NOW_MS,
    USUAL,
    Told,
    checkpoint_measures,
    measures,
    problem,
    report,
    row,
    whole,
)

BY_TOPIC = ExpositionSettings(detail=Detail.TOPIC)
LAG = "mirror_connect_lag_seconds"
RECORDS = "mirror_connect_lag_records"
OF_LINK = f'source="A",target="B",connector="{LINK}"'


def samples(text: str, name: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


def linked(*rows: object) -> Told:
    told = Told()
    told.source([list(rows)])  # type: ignore[list-item]
    return told


def test_lag_in_seconds_is_the_age_of_the_oldest_record_now() -> None:
    told = linked(row("orders", 0, lag=5, oldest_ms=NOW_MS - 2_500), row("orders", 1))
    told.clock.s += 4
    text = told.text()
    assert samples(text, LAG) == {
        f'{{{OF_LINK},topic="orders",partition="0"}}': 6.5,
        f'{{{OF_LINK},topic="orders",partition="1"}}': 0.0,
    }
    assert list(samples(text, RECORDS).values()) == [5, 0]


def test_what_the_source_has_not_told_is_absent_and_never_0() -> None:
    told = linked(row("orders", 0, lag=None), row("orders", 1))
    text = told.text()
    assert list(samples(text, RECORDS)) == [f'{{{OF_LINK},topic="orders",partition="1"}}']
    assert list(samples(text, LAG)) == [f'{{{OF_LINK},topic="orders",partition="1"}}']
    assert samples(text, "mirror_connect_partitions") == {
        f'{{{OF_LINK},state="behind"}}': 0,
        f'{{{OF_LINK},state="at_rest"}}': 1,
        f'{{{OF_LINK},state="unknown"}}': 1,
    }


def test_a_task_that_reports_nothing_any_more_has_no_figures_but_its_silence() -> None:
    told = whole()
    told.clock.s += 30
    text = told.text()
    for name in (LAG, RECORDS, "mirror_connect_records_total", "kafka_consumer_fetch_manager_records_lag"):
        assert samples(text, name) == {}
    assert set(samples(text, "mirror_connect_task_silent_seconds").values()) == {30.0}
    assert {key: value for key, value in samples(text, "mirror_connect_partitions").items() if value} == {
        f'{{{OF_LINK},state="unknown"}}': 4,
        '{source="C",target="B",connector="plain-source",state="unknown"}': 2,
    }


def test_counters_go_on_in_the_next_attempt() -> None:
    told = linked(row("orders", 0, records=100))
    told.clock.s += 1
    again = linked(row("orders", 0, records=30)).metrics.connector(LINK).tasks[0].told
    later = replace(again, at_ms=NOW_MS + 1_000, partitions=(row("orders", 0, records=30),))
    told.metrics.take(TaskId(LINK, 0), report(later, attempt="2"), ())
    text = told.text()
    assert list(samples(text, "mirror_connect_records_total").values()) == [130]
    assert list(samples(text, "mirror_connect_task_attempts_total").values()) == [2]
    assert list(samples(text, "mirror_connect_replication_latency_seconds_count").values()) == [130]


def test_restarts_are_counted_apart_from_epochs() -> None:
    told = linked(row("orders", 0))
    ends = [EPOCH_ENDED, EPOCH_ENDED, RUNNING, FAILED, FINISHED]
    for attempt, state in enumerate(ends, 1):
        told.metrics.take(TaskId(LINK, 0), report(None, attempt=str(attempt), state=state), ())
        # The last report may come again, with the same attempt.
        told.metrics.take(TaskId(LINK, 0), report(None, attempt=str(attempt), state=state), ())
    told.metrics.take(TaskId(LINK, 0), report(None, attempt="last"), ())
    text = told.text()
    names = ("attempts", "epochs", "restarts")
    found = [list(samples(text, f"mirror_connect_task_{name}_total").values()) for name in names]
    assert found == [[6], [2], [3]]


def test_a_task_that_was_never_restarted_has_restarts_of_0() -> None:
    assert set(samples(whole().text(), "mirror_connect_task_restarts_total").values()) == {0}


def test_the_lease_is_that_of_each_task_and_absent_where_a_task_told_none() -> None:
    told = Told()
    told.source([[row("orders", 0)], [row("orders", 1)]])
    second = replace(measures([], NOW_MS + 500), lease_ms=None)
    told.metrics.take(TaskId(LINK, 1), report(second), ())
    assert samples(told.text(), "mirror_connect_task_lease_seconds") == {f'{{{OF_LINK},task="0"}}': 7.4}
    assert samples(told.text(), "mirror_connect_worker_lease_seconds") == {'{flow=""}': 7.5}


VERIFIED = VerifiedRecords(1_000, 50, 900, {"missing": 2, "changed": 0})


def verify_series(told: Told) -> dict[str, float]:
    return samples(told.text(), r"mirror_connect_verify_\w+")


def test_verification_has_its_coverage_its_findings_by_kind_and_the_age_of_its_result() -> None:
    told = whole()
    told.metrics.connector_verified(LINK, VERIFIED)
    told.clock.s += 4
    assert verify_series(told) == {
        f"mirror_connect_verify_copied_records_total{{{OF_LINK}}}": 1_000,
        f"mirror_connect_verify_compared_records_total{{{OF_LINK}}}": 50,
        f"mirror_connect_verify_counted_records_total{{{OF_LINK}}}": 900,
        f'mirror_connect_verify_findings_total{{{OF_LINK},kind="missing"}}': 2,
        f'mirror_connect_verify_findings_total{{{OF_LINK},kind="changed"}}': 0,
        f"mirror_connect_verify_result_age_seconds{{{OF_LINK}}}": 4,
    }


def test_without_a_result_of_verification_there_is_no_series_of_it() -> None:
    told = whole()
    assert verify_series(told) == {}
    told.metrics.connector_verified(LINK, VERIFIED)
    told.metrics.connector_verified(LINK, None)
    assert verify_series(told) == {}


def test_counts_of_verification_go_on_in_the_next_start_of_the_connector() -> None:
    told = whole()
    for each in (VERIFIED, None, VerifiedRecords(10, 1, 9, {"missing": 1})):
        told.metrics.connector_verified(LINK, each)
    found = verify_series(told)
    assert found[f"mirror_connect_verify_copied_records_total{{{OF_LINK}}}"] == 1_010
    assert found[f'mirror_connect_verify_findings_total{{{OF_LINK},kind="missing"}}'] == 3


def test_each_lookup_has_its_age() -> None:
    told = Told()
    told.source([[row("orders", 0)]])
    name = "mirror_connect_lookup_age_seconds"
    assert samples(told.text(), name) == {}
    told.connectors[0] = replace(told.connectors[0], lookups={"regions": 12.5, "customers": 0.0})
    assert samples(told.text(), name) == {
        f'{{{OF_LINK},lookup="regions"}}': 12.5,
        f'{{{OF_LINK},lookup="customers"}}': 0,
    }


def test_one_series_tells_each_problem_since_when() -> None:
    text = whole().text()
    (found,) = samples(text, "mirror_connect_problem_start_timestamp_seconds")
    assert 'connector="plain-source",task="0",code="PARTITION_UNREADABLE",subject="source partition orders-0"' in found
    assert samples(text, "mirror_connect_problems") == {
        f"{{{OF_LINK}}}": 0,
        '{source="C",target="B",connector="plain-source"}': 1,
        '{source="A",target="B",connector="A->B.MirrorCheckpointConnector"}': 0,
    }


def test_a_state_is_1_and_all_others_0() -> None:
    told = Told()
    told.source([[row("orders", 0)], []], states=["RUNNING", "FAILED"])
    states = samples(told.text(), "mirror_connect_task_state")
    assert sorted(key for key, value in states.items() if value) == [
        f'{{{OF_LINK},task="0",state="RUNNING"}}',
        f'{{{OF_LINK},task="1",state="FAILED"}}',
    ]
    assert len(states) == 12


@pytest.mark.parametrize(
    "name", [LAG, RECORDS, "mirror_connect_records_total", "kafka_consumer_fetch_manager_records_lag"]
)
def test_series_of_topics_are_one_for_each(name: str) -> None:
    told = linked(row("orders", 0, lag=5, oldest_ms=NOW_MS - 2_500), row("orders", 1), row("other", 0))
    found = samples(told.text(BY_TOPIC), name)
    assert [re.findall(r'(?:^\{|,)topic="([^"]*)"', key) for key in found] == [["orders"], ["other"]]
    assert not any("partition=" in key for key in found)
    expected = {LAG: [2.5, 0], RECORDS: [5, 0], "mirror_connect_records_total": [240, 120]}
    assert list(found.values()) == expected.get(name, [5, 0])


COUNTERS = (
    "mirror_connect_batches_total",
    "mirror_connect_batch_bytes_total",
    "mirror_connect_requests_total",
    "mirror_connect_request_seconds_total",
    "mirror_connect_replication_latency_seconds_sum",
    "mirror_connect_replication_latency_seconds_count",
    "mirror_connect_compression_saved_bytes",
    "mirror_connect_filtered_records_total",
)


def test_records_that_were_dropped_are_counted_beside_those_that_were_copied() -> None:
    told = linked(row("orders", 0))
    assert samples(told.text(), "mirror_connect_filtered_records_total") == {f"{{{OF_LINK}}}": 30}
    (polled, written) = (
        sum(samples(told.text(), f"kafka_connect_source_task_source_record_{what}_total").values())
        for what in ("poll", "write")
    )
    assert polled == written + 30


def test_counters_do_not_go_back_when_a_connector_gets_fewer_tasks() -> None:
    told = Told()
    told.source([[row("orders", 0)], [row("orders", 1)]])
    before = {name: samples(told.text(), name) for name in COUNTERS}
    assert all(before.values())
    told.metrics.connector(LINK).keep(told.connectors[0].partitions, [], 1)
    assert {name: samples(told.text(), name) for name in COUNTERS} == before
    # It gets as many again: they add to that.
    told.clock.s += 1
    told.metrics.take(TaskId(LINK, 1), report(measures([row("orders", 1)], NOW_MS + 1_000), attempt="2"), ())
    after = {name: samples(told.text(), name) for name in COUNTERS}
    assert all(after[name][key] > value for name in COUNTERS for key, value in before[name].items() if value)


@pytest.mark.parametrize("name", ["mirror_connect_records_total", "mirror_connect_bytes_total"])
def test_counters_of_a_topic_do_not_go_back_while_one_of_its_tasks_begins_again(name: str) -> None:
    told = Told()
    told.source([[row("orders", 0, records=100)], [row("orders", 1, records=40)]])
    before = samples(told.text(BY_TOPIC), name)
    assert len(before) == 1
    told.metrics.take(TaskId(LINK, 0), report(None, attempt="2"), ())
    assert samples(told.text(BY_TOPIC), name) == before
    told.metrics.take(TaskId(LINK, 1), report(None, attempt="2"), ())
    assert samples(told.text(BY_TOPIC), name) == {}


@pytest.mark.parametrize(
    ("rows", "lag", "seconds"),
    [
        pytest.param([row("orders", 0), row("orders", 1)], [0], [0], id="at_rest"),
        pytest.param([row("orders", 0, lag=None), row("orders", 1)], [], [], id="one_may_be_behind"),
        pytest.param(
            [row("orders", 0, lag=5, oldest_ms=NOW_MS + 9_000), row("orders", 1)], [5], [0], id="a_clock_ahead"
        ),
        pytest.param([row("orders", 0, lag=5), row("orders", 1)], [5], [], id="nobody_knows_since_when"),
        pytest.param(
            [row("orders", 0, lag=None), row("orders", 1, lag=5, oldest_ms=NOW_MS - 1_000)],
            [5],
            [1],
            id="one_is_behind_and_one_may_be",
        ),
    ],
)
def test_the_lag_of_a_topic_is_0_only_if_that_is_known_of_all_its_partitions(
    rows: list[object], lag: list[float], seconds: list[float]
) -> None:
    text = linked(*rows).text(BY_TOPIC)
    assert (list(samples(text, RECORDS).values()), list(samples(text, LAG).values())) == (lag, seconds)


def test_the_lag_of_a_topic_is_unknown_while_a_task_at_rest_tells_nothing() -> None:
    told = Told()
    told.source([[row("orders", 0)], [row("orders", 1)]])
    told.metrics.take(TaskId(LINK, 0), report(None, attempt="2"), ())
    assert samples(told.text(BY_TOPIC), RECORDS) == samples(told.text(BY_TOPIC), LAG) == {}


def test_unread_problems_of_a_redacted_line_show_no_line() -> None:
    told = Told()
    told.source([[row("orders", 0)]], problems=[problem("cluster hunter2")])
    # The line may quote what a broker says; a label has the subject alone.
    assert "can't be read" not in told.text()


def test_work_is_bounded_by_pieces_and_grows_with_partitions_alone() -> None:
    def pieces(partitions: int) -> list[str]:
        told = linked(*(row(f"topic-{n // 10}", n % 10) for n in range(partitions)))
        return list(pieces_of(told.process(), USUAL, Format.TEXT))

    few, many = pieces(1_000), pieces(4_000)
    assert max(piece.count("\n") for piece in many) <= AT_ONCE
    lines = sum(piece.count("\n") for piece in few), sum(piece.count("\n") for piece in many)
    # 17 samples for each partition: 12 of MirrorMaker, the consumer's lag, and 4 of our own.
    assert lines[1] - lines[0] == 3_000 * 17
    assert len(many) - len(few) <= 3_000 * 17 // AT_ONCE + 3_000 // 100 + 100


def test_the_latency_of_a_checkpoint_stays_when_later_reports_have_none() -> None:
    told = whole()
    name = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    before = samples(told.text(), name)
    later = checkpoint_measures(latency=None)
    told.metrics.take(TaskId(CHECKPOINTS, 0), report(replace(later, at_ms=NOW_MS + 500)), ())
    assert list(before.values()) == [40, 40]
    assert samples(told.text(), name) == before


def test_the_time_of_the_last_commit_stays_while_nothing_is_committed() -> None:
    told = linked(row("orders", 0))
    name = "kafka_connect_connector_task_offset_commit_avg_time_ms"
    at_rest = replace(measures([]), at_ms=NOW_MS + 500, commit=None)
    told.metrics.take(TaskId(LINK, 0), report(at_rest), ())
    assert list(samples(told.text(), name).values()) == [6.0]
