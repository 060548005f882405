"""InitProducerId as bytes."""

from __future__ import annotations

import struct

import pytest
from aiokafka.protocol.transaction import InitProducerIdRequest_v0, InitProducerIdResponse_v0

from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from tests.fakes.request_bytes import decoded, encoded


def test_flexible_answers_may_carry_unknown_tags() -> None:
    body = struct.pack(">ihqh", 0, 0, 4000, 7) + b"\x01\x05\x02xy"
    assert decoded(InitProducerId("tx"), 4, body)[2:] == (4000, 7)


def test_a_producer_id_is_asked_for_as_aiokafka_asks() -> None:
    request = InitProducerId("tx", 9000)
    assert encoded(request, 0) == InitProducerIdRequest_v0("tx", 9000).encode()
    body = InitProducerIdResponse_v0(4, 0, 4000, 7).encode()
    assert decoded(request, 0, body) == InitProducerIdResponse(4, 0, 4000, 7)


def test_a_known_producer_id_and_epoch_are_sent_since_version_three() -> None:
    request = InitProducerId("tx", 9000, 4000, 7)
    assert encoded(request, 2) == b"\x03tx" + struct.pack(">i", 9000) + b"\0"
    assert encoded(request, 3) == b"\x03tx" + struct.pack(">iqh", 9000, 4000, 7) + b"\0"


def test_what_before_write_raises_prevents_the_request() -> None:
    def refuse() -> None:
        raise RuntimeError("no lease")

    with pytest.raises(RuntimeError, match="no lease"):
        encoded(InitProducerId("tx", before_write=refuse), 0)
