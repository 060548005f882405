"""What is wrong with one record that a transformation can't take, and what errors.tolerance makes of that."""

from __future__ import annotations

from typing import Final


class StepError(Exception):
    """A step can't take a record. The text is half a sentence, and has nothing of what the record holds."""


class RecordError(Exception):
    """A record can't be transformed.

    `transformation`: the alias in the config. `reason`: half a sentence without anything of what the record holds.
    `key`, `value`: as the source has them, for errors.log.include.messages alone.
    """

    def __init__(
        self, offset: int, transformation: str, reason: str, *, key: bytes | None = None, value: bytes | None = None
    ) -> None:
        super().__init__(f"offset {offset}, transformation {transformation}: {reason}")
        self.offset = offset
        self.transformation = transformation
        self.reason = reason
        self.key = key
        self.value = value


class TransformationError(Exception):
    """A record could not be transformed, and errors.tolerance=none. The text is one line for the user."""


class SkippedRecords:
    """The records that errors.tolerance=all has dropped of one batch: how many, and the first MOST_KEPT of them."""

    MOST_KEPT: Final = 50

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[RecordError] = []

    def add(self, error: RecordError) -> None:
        """One more. What its record holds is kept of the first ones alone."""
        self.count += 1
        if len(self.kept) < self.MOST_KEPT:
            self.kept.append(error)
