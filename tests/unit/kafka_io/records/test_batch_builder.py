"""Batches of new records; aiokafka reads them back."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.encoded_batches import NOW, contents
from tests.fakes.rewritten_batches import records_of

pytestmark = pytest.mark.usefixtures("each_way")


def test_a_built_batch_has_the_given_records() -> None:
    producer_batch = build([NewRecord(b"k", b"v", NOW + 3), NewRecord(None, b"", NOW), NewRecord(b"", None, NOW + 9)])
    assert contents(records_of(producer_batch)) == [
        (NOW + 3, b"k", b"v", ()),
        (NOW, None, b"", ()),
        (NOW + 9, b"", None, ()),
    ]
