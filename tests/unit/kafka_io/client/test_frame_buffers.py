"""Buffers of large frames: used again, but never while somebody holds a part of the former frame."""

from __future__ import annotations

import random

from mirror_connect.kafka_io.client.frame_buffers import LARGE, FrameBuffers

MIB = 1 << 20


def test_a_frame_has_its_size() -> None:
    buffers = FrameBuffers()
    assert [len(buffers.room(size)) for size in (1, LARGE - 1, LARGE, LARGE + 1, 4 * MIB + 77)] == [
        1,
        LARGE - 1,
        LARGE,
        LARGE + 1,
        4 * MIB + 77,
    ]


def test_a_buffer_is_used_again_when_no_slice_is_left() -> None:
    buffers = FrameBuffers()
    frame = buffers.room(MIB)
    frame[:4] = b"abcd"
    part = frame[1:3]
    del frame
    other = buffers.room(MIB)
    other[:4] = b"efgh"
    assert bytes(part) == b"bc"
    assert buffers.kept == 2
    del part
    third = buffers.room(MIB)
    assert bytes(third[:4]) == b"abcd"
    assert buffers.kept == 2


def test_a_slice_never_changes_whatever_comes_after_it() -> None:
    rng, buffers = random.Random(3), FrameBuffers()
    held: list[tuple[memoryview, int, int]] = []
    for number in range(300):
        size = rng.choice((100, LARGE, LARGE + rng.randrange(LARGE), 2 * LARGE - 5))
        frame = buffers.room(size)
        assert len(frame) == size
        mark = number % 251
        frame[:] = bytes([mark]) * size
        first = rng.randrange(size)
        held.append((frame[first : first + 50], mark, min(50, size - first)))
        del frame
        for _ in range(rng.choice((0, 1, 1, 2))):
            if held:
                held.pop(rng.randrange(len(held)))
        assert all(bytes(part) == bytes([mark]) * length for part, mark, length in held)


def test_what_is_no_longer_needed_is_given_back() -> None:
    buffers = FrameBuffers()
    frames = [buffers.room(MIB) for _ in range(6)]
    assert buffers.kept == 6
    frames.clear()
    buffers.room(MIB)
    assert buffers.kept == 2
    for _ in range(10):
        buffers.room(50)
    assert buffers.kept == 0


def test_a_small_frame_takes_no_large_buffer() -> None:
    buffers = FrameBuffers()
    buffers.room(8 * MIB)
    buffers.room(MIB)
    assert buffers.kept == 2
