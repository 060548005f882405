"""One batch on its way to the target: its sequence, its bytes, and what is known of whether the target has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.kafka_io.records.record_batch import ProducerBatch, next_sequence

NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A batch between `take` and its acknowledgement. Repetitions have the same bytes and the same sequence.

    `absent`: it is certain that the target has not written it. `repeated`: it was sent again although the target may have
    written it before, so its offset there is not known. `payload`: header and records.
    `on_leader`: the leader has it, but perhaps no other replica.
    """

    batch: ProducerBatch
    sequence: int
    payload: tuple[bytes, bytes]
    on_wire: bool = False
    acked: bool = False
    absent: bool = False
    repeated: bool = False
    on_leader: bool = False
    base_offset: int = NO_OFFSET

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.batch.size

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record."""
        return next_sequence(self.sequence, self.batch.count - 1)

    @property
    def never_written(self) -> bool:
        """Whether it is certain that the target has not written it, and that no request under way holds it."""
        return self.absent and not (self.repeated or self.on_wire or self.acked)
