"""What is wrong with one record that a transformation can't take, and what errors.tolerance makes of that."""

from __future__ import annotations

from typing import Final, NamedTuple


class StepError(Exception):
    """A step can't take a record. The text is half a sentence, and has nothing of what the record holds."""


class OriginalRecord(NamedTuple):
    """A record as the source has it. `rest`: its bytes behind the deltas, which are key, value and headers."""

    timestamp: int
    rest: bytes


class RecordError(Exception):
    """A record can't be transformed.

    `transformation`: the alias in the config. `reason`: half a sentence without anything of what the record holds.
    `key`, `value`: as the source has them, for errors.log.include.messages alone. `original`: for the dead letter topic.
    """

    def __init__(
        self,
        offset: int,
        transformation: str,
        reason: str,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        original: OriginalRecord | None = None,
    ) -> None:
        super().__init__(f"offset {offset}, transformation {transformation}: {reason}")
        self.offset = offset
        self.transformation = transformation
        self.reason = reason
        self.key = key
        self.value = value
        self.original = original


class TransformationError(Exception):
    """A record could not be transformed, and errors.tolerance=none. The text is one line for the user."""


class SkippedRecords:
    """The records that errors.tolerance=all has dropped of one batch: how many, and the first MOST_KEPT of them.

    `letters`: all of them that `take_letters` has not given yet; None if no dead letter topic gets them.
    """

    MOST_KEPT: Final = 50

    def __init__(self, *, letters: bool = False) -> None:
        self.count = 0
        self.kept: list[RecordError] = []
        self.letters: list[RecordError] | None = [] if letters else None

    def add(self, error: RecordError) -> None:
        """One more. Without a dead letter topic, what its record holds is kept of the first ones alone."""
        self.count += 1
        if len(self.kept) < self.MOST_KEPT:
            self.kept.append(error)
        if self.letters is not None:
            self.letters.append(error)

    def take_letters(self) -> list[RecordError]:
        """Those that came since the last call, by their offsets."""
        if not self.letters:
            return []
        found, self.letters = self.letters, []
        return sorted(found, key=lambda each: each.offset)
