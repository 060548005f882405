"""The buffers of large responses, used again as soon as nobody holds a slice of the former response.

A new buffer is filled with zeros, and the system has to find its pages: for 4 MiB that took more than a millisecond.
"""

from __future__ import annotations

from typing import Final

# Smaller ones cost little.
LARGE: Final = 256 << 10
# Responses to one kind of request have sizes of some variety, and all of them are to fit.
_STEP: Final = 256 << 10
# A buffer is for frames that fill it at least so far: only the bytes of frames are counted.
_FILLED: Final = 0.75
# After so many small frames in a row there is nothing to fetch, or little: the memory is given back.
_SMALL_IN_A_ROW: Final = 10


class FrameBuffers:
    """The buffers of one connection: those in use, and one more or two."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []
        self._small = 0

    @property
    def kept(self) -> int:
        """How many large buffers there are."""
        return len(self._kept)

    def room(self, size: int) -> memoryview:
        """Room for a frame of `size` bytes, with any content. It is used again when no view or slice of it is left."""
        if size < LARGE:
            self._small += 1
            if self._small >= _SMALL_IN_A_ROW:
                self._kept.clear()
            return memoryview(bytearray(size))
        self._small = 0
        free = [buffer for buffer in self._kept if _is_free(buffer)]
        found = next((buffer for buffer in free if size <= len(buffer) <= size / _FILLED), None)
        # The others are too many: the reader needs no more than it held at the same time.
        surplus = [buffer for buffer in free if buffer is not found][1:]
        if found is None:
            found = bytearray(-(-size // _STEP) * _STEP)
            self._kept.append(found)
        if surplus:
            self._kept = [buffer for buffer in self._kept if all(buffer is not each for each in surplus)]
        return memoryview(found)[:size]


def _is_free(buffer: bytearray) -> bool:
    """Whether there is no memoryview of it: its size can't be changed while there is one."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
