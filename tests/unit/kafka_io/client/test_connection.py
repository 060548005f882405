"""One connection to a scripted broker, which answers the bytes that a test gives."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.acls import DescribeTopicAcls
from mirror_connect.kafka_io.protocol.fetch import Fetch
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from mirror_connect.kafka_io.protocol.produce import Produce, ProducePartition
from tests.fakes.scripted_broker import VERSIONS, broker, coordinator, opened


@pytest.mark.parametrize("chunk", [1, 3, 4096, 1 << 30])
@pytest.mark.parametrize("size", [0, 10, 70_000, 300_000])
async def test_answers_are_whole_however_the_network_cuts_them(chunk: int, size: int) -> None:
    if chunk < 10 and size > 1000:
        size = 3000
    message = "m" * min(size, 32_000)

    async def answer(key: int, body: bytes) -> bytes:
        return coordinator(int.from_bytes(body[2 : 2 + body[1]], "big"), message)

    async with broker(answer, chunk) as port:
        # Byte by byte is slow on a busy machine.
        connection = await opened(port, timeout=60.0)
        answers = await asyncio.gather(*(connection.start(FindCoordinator(chr(n), 0)) for n in range(1, 20)))
        assert [(found.node_id, found.message) for found in answers] == [(n, message) for n in range(1, 20)]
        connection.lost("end of test")


async def test_a_frame_larger_than_the_scratch_buffer_is_followed_by_the_next_one() -> None:
    async def answer(_: int, body: bytes) -> bytes:
        return coordinator(body[2]) + b"\0" * 200_000

    async with broker(answer) as port:
        connection = await opened(port)
        answers = await asyncio.gather(*(connection.start(FindCoordinator(chr(n), 0)) for n in range(1, 9)))
        assert [found.node_id for found in answers] == list(range(1, 9))
        connection.lost("end of test")


async def test_everything_in_flight_is_lost_when_the_broker_hangs_up() -> None:
    async def answer(_: int, __: bytes) -> None:
        return None

    async with broker(answer) as port:
        connection = await opened(port)
        results = await asyncio.gather(
            *(connection.start(FindCoordinator("g", 0)) for _ in range(3)), return_exceptions=True
        )
        assert [str(error) for error in results] == [f"broker 127.0.0.1:{port}: the broker closed the connection"] * 3


async def test_what_a_lost_connection_has_not_sent_yet_never_arrives() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10.0)

    def introduced() -> socket.socket:
        accepted, _ = listener.accept()
        accepted.settimeout(10.0)
        frame = accepted.recv(4096)
        body = frame[8:12] + VERSIONS
        accepted.sendall(struct.pack(">i", len(body)) + body)
        return accepted

    def rest(accepted: socket.socket) -> str:
        try:
            while accepted.recv(1 << 16):
                pass
        except ConnectionResetError:
            return "cut off"
        return "flushed"

    accepting = asyncio.create_task(asyncio.to_thread(introduced))
    with listener:
        connection = await opened(listener.getsockname()[1])
        # More than the broker reads now. The system would go on sending the rest for as long as that takes.
        requests = [connection.start(FindCoordinator("g" * 30_000, 0)) for _ in range(400)]
        with await accepting as accepted:
            connection.lost("given up")
            await asyncio.gather(*requests, return_exceptions=True)
            assert await asyncio.to_thread(rest, accepted) == "cut off"


async def test_a_broker_that_never_answers_is_a_timeout_that_names_it() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with broker(answer) as port:
        connection = await opened(port, timeout=0.5)
        with pytest.raises(ConnectionLost, match=r"no answer to FindCoordinator within 500 ms \(request.timeout.ms\)"):
            await connection.start(FindCoordinator("g", 0))


async def test_a_request_the_broker_has_no_version_of_is_refused_here() -> None:
    async def answer(_: int, __: bytes) -> None:
        return None

    async with broker(answer) as port:
        connection = await opened(port)
        with pytest.raises(
            UnsupportedByBroker, match=r"DescribeTopicAcls in no version, .*; Kafka 2.8 or newer is needed"
        ):
            connection.start(DescribeTopicAcls())
        connection.lost("end of test")


def test_records_are_fetched_by_topic_id_and_produced_by_name() -> None:
    by_name, by_id = (Fetch([], 0, 0, 0, names=names) for names in (None, {}))
    assert (by_name.highest, by_id.highest, Produce([]).highest) == (12, 13, 8)
    assert ProducePartition("a", 0, []).topic == "a"
