"""The bytes of AlterClientQuotas, by Kafka's message definition: there is no other implementation of it here."""

from __future__ import annotations

import pytest

from benchmarks.broker_socket import request_frame
from benchmarks.client_quotas import Altered, LimitConsumers
from mirror_connect.kafka_io.protocol.codec import Reader

HEAD = 14
# One entry, one entity: "client-id" and null.
ENTITY = "00000001000000010009" + b"client-id".hex() + "ffff"
# One change: the key.
KEY = "000000010012" + b"consumer_byte_rate".hex()


@pytest.mark.parametrize(
    ("rate", "change"),
    [
        pytest.param(2.5, "400400000000000000", id="set"),
        pytest.param(None, "000000000000000001", id="taken_away"),
    ],
)
def test_the_limit_of_client_ids_without_one_of_their_own_is_written(rate: float | None, change: str) -> None:
    frame = request_frame(LimitConsumers(rate), 0)
    # validate_only is the last byte.
    assert frame[HEAD:].hex() == ENTITY + KEY + change + "00"
    assert frame[4:8].hex() == "00310000"


def test_an_answer_has_the_error_of_its_entry() -> None:
    answer = "0000000000000001002a0003" + b"why".hex() + "000000010009" + b"client-id".hex() + "ffff"
    assert LimitConsumers(1.0).decode(0, Reader(memoryview(bytes.fromhex(answer)))) == [Altered(42, "why")]
