"""Counts batches that a producer sends otherwise than once and whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BatchCounts:
    """Batches and their bytes: split because the target takes no larger ones; sent again after an error or a lost answer."""

    split: int = 0
    split_bytes: int = 0
    repeated: int = 0
    repeated_bytes: int = 0
