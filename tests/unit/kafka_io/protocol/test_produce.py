"""Produce as bytes: aiokafka's structs."""

from __future__ import annotations

import struct

from aiokafka.protocol.produce import ProduceRequest_v8, ProduceResponse_v3, ProduceResponse_v8

from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProducePartition
from tests.fakes.request_bytes import decoded, encoded


def test_produce_is_written_as_aiokafka_writes_it() -> None:
    request = Produce(
        [
            ProducePartition("a", 0, [b"head", memoryview(b"body")]),
            ProducePartition("b", 3, [b"x"]),
            ProducePartition("a", 1, [b"y"]),
        ],
        acks=-1,
        timeout_ms=9,
        transactional_id="tx",
    )
    theirs = ProduceRequest_v8("tx", -1, 9, [("a", [(0, b"headbody"), (1, b"y")]), ("b", [(3, b"x")])]).encode()
    assert encoded(request, 8) == theirs


def test_produced_batches_are_not_copied_on_their_way_out() -> None:
    batch = bytearray(b"x" * 1000)
    writer = Writer()
    Produce([ProducePartition("a", 0, [batch])]).encode(8, writer)
    assert any(buffer is batch for buffer in writer.buffers())


def test_produce_answer_names_the_reason_of_a_refusal() -> None:
    partition = (3, 87, -1, -1, 0, [(0, "no key")], "one record failed")
    body = ProduceResponse_v8([("a", [partition])], 5).encode()
    answer = decoded(Produce([]), 8, body)
    assert answer == ([ProducedPartition("a", 3, 87, -1, -1, 0, "one record failed")], 5)


def test_produce_answer_mixes_batches_with_and_without_a_reason() -> None:
    well, bad = (0, 0, 44, -1, 7, [], None), (1, 87, -1, -1, 0, [(0, None), (2, "no key")], None)
    body = ProduceResponse_v8([("a", [well, bad, well]), ("b", [well])], 5).encode()
    answer = decoded(Produce([]), 8, body)
    found = [ProducedPartition("a", 0, 0, 44, -1, 7, ""), ProducedPartition("a", 1, 87, -1, -1, 0, "no key")]
    assert answer == ([*found, found[0], found[0]._replace(topic="b")], 5)


def test_produce_answer_of_an_old_broker_has_no_log_start() -> None:
    body = ProduceResponse_v3([("a", [(3, 0, 44, -1)])], 0).encode()
    assert decoded(Produce([]), 3, body).partitions == [ProducedPartition("a", 3, 0, 44, -1, -1, "")]


def test_only_the_version_that_adds_partitions_is_used_where_the_broker_must_add_them() -> None:
    plain, adding = Produce([]), Produce([], adds_partitions=True)
    assert ((plain.lowest, plain.highest), (adding.lowest, adding.highest)) == ((3, 8), (12, 12))


def test_produce_is_written_in_the_flexible_version() -> None:
    batches = [ProducePartition("a", 0, [b"head", memoryview(b"body")]), ProducePartition("a", 1, [b"y"])]
    request = Produce(batches, timeout_ms=9, transactional_id="tx", adds_partitions=True)
    head = b"\x03tx" + struct.pack(">hi", -1, 9)
    first, second = bytes(4) + b"\x09headbody\0", struct.pack(">i", 1) + b"\x02y\0"
    assert encoded(request, 12) == head + b"\x02\x02a\x03" + first + second + b"\0\0"


def test_produce_answer_in_the_flexible_version_names_reasons_and_skips_the_leader() -> None:
    well = struct.pack(">ihqqq", 0, 0, 44, -1, 7) + b"\x01\x00" + b"\x00"
    leader = b"\x01\x00\x09" + struct.pack(">ii", 2, 5) + b"\0"
    bad = struct.pack(">ihqqq", 1, 87, -1, -1, 0) + b"\x02" + bytes(4) + b"\x07no key\0" + b"\x00" + leader
    body = b"\x02\x02a\x03" + well + bad + b"\0" + struct.pack(">i", 5) + b"\0"
    found = [ProducedPartition("a", 0, 0, 44, -1, 7, ""), ProducedPartition("a", 1, 87, -1, -1, 0, "no key")]
    assert decoded(Produce([], adds_partitions=True), 12, body) == (found, 5)
