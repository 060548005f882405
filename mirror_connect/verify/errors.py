"""The error of what can't be compared."""

from __future__ import annotations


class CannotCompareError(Exception):
    """A partition, or everything, can't be compared; the text is one line that says why."""
