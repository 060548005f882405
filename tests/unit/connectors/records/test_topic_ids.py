"""Topic ids as text and back."""

from __future__ import annotations

import uuid

import pytest

from mirror_connect.connectors.records.source_offsets import (
    LEADER_EPOCH_HEADER,
    TOPIC_ID_HEADER,
    parse_source_offset_headers,
    source_offset_headers,
)
from mirror_connect.connectors.records.topic_ids import parse_topic_id, topic_id_text

ID = uuid.UUID("d6a24f5f-1a1b-4c8e-9f4c-fbfffeff0102").bytes


def test_an_id_is_written_as_kafkas_tools_print_it() -> None:
    # org.apache.kafka.common.Uuid of the same two longs.
    assert topic_id_text(ID) == "1qJPXxobTI6fTPv__v8BAg"


@pytest.mark.parametrize("text", ["1qJPXxobTI6fTPv__v8BAg", b"1qJPXxobTI6fTPv__v8BAg"])
def test_an_id_is_read_back(text: str | bytes) -> None:
    assert parse_topic_id(text) == ID


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "1qJP",
        "1qJPXxobTI6fTPv__v8BA ",
        "1qJPXxobTI6fTPv__v8BAgg",
        "ümlaut" * 4,
        b"!" * 22,
        "A" * 21 + "?",
        "A" * 22,
    ],
)
def test_what_is_no_id_is_none(text: str | bytes | None) -> None:
    assert parse_topic_id(text) is None


def test_the_header_of_a_position_holds_its_topics_id() -> None:
    assert parse_source_offset_headers([("other", b"x"), *source_offset_headers(ID)]) == (ID, -1)


@pytest.mark.parametrize("headers", [[], [("other", b"x")], [(TOPIC_ID_HEADER, None)], [(TOPIC_ID_HEADER, b"?")]])
def test_a_position_without_a_good_header_tells_of_no_topic(headers: list[tuple[str, bytes | None]]) -> None:
    assert (parse_source_offset_headers(headers), source_offset_headers(None)) == ((None, -1), ())


@pytest.mark.parametrize("epoch", [0, 7, 2**31 - 1])
def test_beside_it_stands_the_leader_epoch_of_its_record(epoch: int) -> None:
    headers = source_offset_headers(ID, epoch)
    assert headers[1] == (LEADER_EPOCH_HEADER, str(epoch).encode())
    assert parse_source_offset_headers(headers) == (ID, epoch)


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"1 ", "\u0661".encode(), b"2147483648", b"9" * 5000, None])
def test_what_is_no_epoch_is_none(value: bytes | None) -> None:
    assert parse_source_offset_headers([*source_offset_headers(ID), (LEADER_EPOCH_HEADER, value)]) == (ID, -1)


def test_an_epoch_says_nothing_of_a_topic_that_is_not_known() -> None:
    assert (source_offset_headers(None, 7), parse_source_offset_headers([(LEADER_EPOCH_HEADER, b"7")])) == (
        (),
        (None, -1),
    )
