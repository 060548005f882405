"""Which of librdkafka's answers about offsets count as an answer."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.consumer import record_reader
from mirror_connect.kafka_io.consumer.record_reader import ListedOffset, OffsetAsker

EARLIEST, LATEST, SOME_TIME = -2, -1, 1_795_248_000_000


@pytest.mark.parametrize(
    ("wanted", "offset", "found"),
    [
        pytest.param(LATEST, 7, ListedOffset(7, 4), id="an_end"),
        pytest.param(SOME_TIME, -1, ListedOffset(None, 4), id="no_record_is_as_late"),
        pytest.param(LATEST, -1001, None, id="of_a_leader_that_has_just_gone"),
        pytest.param(SOME_TIME, -1001, None, id="of_a_leader_that_has_just_gone_at_a_time"),
        pytest.param(EARLIEST, -1, None, id="a_log_without_a_beginning"),
    ],
)
def test_no_offset_without_an_error_is_no_answer_and_no_empty_log(
    monkeypatch: pytest.MonkeyPatch, wanted: int, offset: int, found: ListedOffset | None
) -> None:
    class Admin:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def list_offsets(
            self, asked: Mapping[TopicPartition, object], **_: object
        ) -> dict[TopicPartition, Future[Any]]:
            answer: Future[Any] = Future()
            answer.set_result(ListOffsetsResultInfo(offset, -1, 4))
            return dict.fromkeys(asked, answer)

    monkeypatch.setattr(record_reader, "AdminClient", Admin)
    told, why = OffsetAsker({}, SOURCE_USER).offsets({("t", 0): wanted}, committed=True, timeout=1)
    if found is None:
        assert (told, why) == ({}, "t-0: its leader did not report an offset")
    else:
        assert (told, why) == ({("t", 0): found}, "")
