"""What dead letters say about their errors: where, which transformation, why, and no secret."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.copy.letter_context import LetterContext, as_it_was

ORDERS = TopicPartition("orders", 3)
CONFIG = {
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "spark.transform.secret.PEPPER": "hunter2hunter2",
}
RECORD = RecordParts(b"k", b"{", ((b"h", None),))


def error(reason: str, transformation: str = "mask", offset: int = 41) -> RecordError:
    return RecordError(offset, transformation, reason, original=OriginalRecord(5, rest_of(RECORD)))


def test_the_headers_are_those_of_kafkas_sinks() -> None:
    made = LetterContext("link", 2, CONFIG).written(ORDERS, error("the value is no JSON at character 2"))
    found = parts_of(made)
    assert found._replace(headers=found.headers[:1]) == RECORD
    message = b"transformation mask can't take the record: the value is no JSON at character 2"
    assert found.headers[1:] == (
        (b"__connect.errors.topic", b"orders"),
        (b"__connect.errors.partition", b"3"),
        (b"__connect.errors.offset", b"41"),
        (b"__connect.errors.connector.name", b"link"),
        (b"__connect.errors.task.id", b"2"),
        (b"__connect.errors.stage", b"TRANSFORMATION"),
        (b"__connect.errors.class.name", b"org.apache.kafka.connect.transforms.MaskField$Value"),
        (b"__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        (b"__connect.errors.exception.message", message),
        (
            b"__connect.errors.exception.stacktrace",
            b"org.apache.kafka.connect.errors.DataException: " + message + b"\n",
        ),
    )


def test_a_statement_is_named_by_its_setting() -> None:
    made = LetterContext("link", 0, CONFIG).written(ORDERS, error("WHERE raised an error", "spark.transform.sql"))
    assert (b"__connect.errors.class.name", b"spark.transform.sql") in parts_of(made).headers


@pytest.mark.parametrize("secret", ["hunter2hunter2", "from-a-provider"])
def test_no_header_shows_a_secret(secret: str) -> None:
    made = LetterContext("link", 0, CONFIG, ["from-a-provider"]).written(ORDERS, error(f"field {secret} is a list"))
    assert secret.encode() not in made
    assert b"field [hidden] is a list" in made


def test_many_different_reasons_take_no_memory_for_ever() -> None:
    context = LetterContext("link", 0, CONFIG)
    for number in range(2_500):
        assert b"character %d" % number in context.written(ORDERS, error(f"the value is no JSON at character {number}"))
    assert len(context._of_reasons) <= 1_000


def test_a_record_whose_headers_can_not_be_read_goes_there_as_it_is() -> None:
    broken = RecordError(1, "spark.transform.sql", "x", original=OriginalRecord(5, b"\x01\x01\x7f"))
    assert LetterContext("link", 0, CONFIG).written(ORDERS, broken) == b"\x01\x01\x7f"
    assert as_it_was(ORDERS, error("x")) == rest_of(RECORD)
