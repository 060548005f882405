"""When a heap is too full to work with: the JVM collects it again and again, and next to nothing becomes free.

No OutOfMemoryError comes then, as a little is always free. HotSpot has a limit for that (UseGCOverheadLimit), but not with
the serial collector. With the parallel one 98 % of the time have to go into collections, and the young part to be full, too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

# Of the last SPAN_S, so much went into collections. With a full old part of 416 MiB it was a half. With one that was full to
# 95 %, and young objects that died at once, it was 1 %.
SHARE: Final = 0.4
SPAN_S: Final = 20.0
# So much of the old part is in use after each of its collections.
FULL: Final = 0.95
# A JVM that was suspended once is no reason.
LEAST_SAMPLES: Final = 3
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class HeapSample:
    """`at`: seconds of a clock that never goes back. `collecting_s`: for how long the JVM has collected since its start.

    `left`: bytes of the old part that its last collection left in use. `old`: bytes that this part may have. `heap`: bytes
    that the whole heap may have.
    """

    at: float
    collecting_s: float
    left: int
    old: int
    heap: int


class FullHeap:
    """Takes samples of one JVM, in their order, every few seconds."""

    def __init__(self) -> None:
        self._samples: deque[HeapSample] = deque()

    def take(self, sample: HeapSample) -> str | None:
        """One line if the heap is too full to work with: its size, how full it is, what it costs. None if it is not."""
        samples = self._samples
        if sample.left < FULL * sample.old:
            samples.clear()
            return None
        samples.append(sample)
        # The oldest one that is needed is just before the span.
        while len(samples) > 1 and sample.at - samples[1].at >= SPAN_S:
            samples.popleft()
        oldest = samples[0]
        seconds = sample.at - oldest.at
        if seconds < SPAN_S or len(samples) < LEAST_SAMPLES:
            return None
        share = min(1.0, (sample.collecting_s - oldest.collecting_s) / seconds)
        if share < SHARE:
            return None
        return (
            f"the heap of its JVM is full: {sample.left // _MIB} of {sample.heap // _MIB} MiB stay in use, "
            f"and {share:.0%} of the last {seconds:.0f} s went into garbage collections"
        )
