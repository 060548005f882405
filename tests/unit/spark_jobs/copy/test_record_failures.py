"""errors.tolerance, errors.log.enable and errors.log.include.messages, of records that can't be transformed."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError, SkippedRecords, TransformationError
from mirror_connect.spark_jobs.copy.record_failures import RecordFailures

ORDERS = TopicPartition("orders", 3)
CONFIG = {
    "name": "m",
    "connector.class": MirrorSource.class_name,
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
}
CARD = b'{"card": "4111'


def error(offset: int, value: bytes | None = CARD) -> RecordError:
    return RecordError(offset, "mask", "the value is no JSON at character 15", key=b"k\n", value=value)


def failures(log: list[str], **settings: str) -> RecordFailures:
    config = {**CONFIG, **{f"errors.{name.replace('_', '.')}": value for name, value in settings.items()}}
    return RecordFailures(MirrorSource().settings(config), log.append, lambda: 12.5)


def skipped(*errors: RecordError) -> SkippedRecords:
    found = SkippedRecords()
    for each in errors:
        found.add(each)
    return found


@pytest.mark.parametrize("shows", ["false", "true"])
def test_the_line_of_the_task_names_the_record_and_never_shows_it(shows: str) -> None:
    log: list[str] = []
    made = failures(log, log_enable="true", log_include_messages=shows)
    assert not made.tolerant
    made.raise_failure()
    made.end(ORDERS, error(41))
    assert made.failed.is_set()
    with pytest.raises(TransformationError) as raised:
        made.raise_failure()
    text = str(raised.value)
    assert text.startswith(
        "orders, partition 3, offset 41: transformation mask can't take the record: the value is no JSON"
    )
    assert "errors.tolerance=all" in text
    assert "4111" not in text
    (line,) = log
    assert ("4111" in line) == (shows == "true")
    assert (made.counts.errors, made.counts.skipped, made.counts.logged, made.counts.last_ms) == (1, 0, 1, 12_500)


def test_nothing_is_logged_unless_the_config_wants_it() -> None:
    log: list[str] = []
    made = failures(log, tolerance="all")
    assert made.tolerant
    made.skip(ORDERS, skipped(error(1), error(2)))
    assert log == []
    assert (made.counts.errors, made.counts.skipped, made.counts.logged) == (2, 2, 0)
    made.raise_failure()


def test_a_record_in_the_log_is_one_line_and_not_long() -> None:
    log: list[str] = []
    made = failures(log, tolerance="all", log_enable="true", log_include_messages="true")
    made.skip(ORDERS, skipped(error(1), error(2, None), error(3, b"\xff" + b"x" * 5_000)))
    assert all("\n" not in line for line in log)
    assert log[0].endswith("""Its key is 'k\\n', its value '{"card": "4111'""")
    assert log[1].endswith("its value null")
    assert log[2].endswith("x' and 4001 bytes more")


def test_many_records_of_a_batch_share_a_line() -> None:
    log: list[str] = []
    made = failures(log, tolerance="all", log_enable="true")
    made.skip(ORDERS, skipped(*map(error, range(70))))
    assert len(log) == SkippedRecords.MOST_KEPT + 1
    assert "20 more records" in log[-1]
    assert made.counts.logged == 70
