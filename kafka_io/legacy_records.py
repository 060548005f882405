"""Messages of the formats before Kafka 0.11 (magic 0 and 1), as old brokers still send them."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.record.legacy_records import LegacyRecordBatch

NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class LegacyRecord:
    """One record; `timestamp` in ms, NO_TIMESTAMP for magic 0, which has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class LegacyError(Exception):
    """A message set that can't be decoded."""


def crc_is_right(message: bytes) -> bool:
    """Whether the CRC-32 in the message fits."""
    return bool(LegacyRecordBatch(message, message[16]).validate_crc())


def decode(message: bytes) -> list[LegacyRecord]:
    """The records of one message: more than one if it is compressed."""
    try:
        return [
            LegacyRecord(
                record.offset, NO_TIMESTAMP if record.timestamp is None else record.timestamp, record.key, record.value
            )
            for record in LegacyRecordBatch(message, message[16])
        ]
    except Exception as error:  # noqa: BLE001 — each codec and decoder has errors of its own
        raise LegacyError(f"its message format {message[16]} can't be read ({type(error).__name__})") from None
