"""The request for a cluster's finalized features: which level of each the whole cluster has agreed on (KIP-584)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

TRANSACTION_VERSION: Final = "transaction.version"
# From this level on, transactions are those of KIP-890: Produce adds partitions, and EndTxn gives a new epoch.
NEW_TRANSACTIONS: Final = 2
_FINALIZED_TAG: Final = 2
_NAME, _VERSION = "mirror-connect", "0"


@dataclass(frozen=True, slots=True)
class FinalizedFeatures(Request[dict[str, int]]):
    """ApiVersions v3, read for its finalized features alone: name → level. Empty at brokers that finalized none."""

    api_key: ClassVar[int] = 18
    versions: ClassVar[tuple[int, int]] = (3, 3)

    # Its body is flexible, but the header of its answer is not, so that every client can read it. That is why
    # `flexible_from` stays where it is, and both switch by hand.

    def encode(self, version: int, writer: Writer) -> None:
        """Begins with the tags of the request's header."""
        writer.flexible = True
        writer.tags()
        writer.string(_NAME)
        writer.string(_VERSION)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> dict[str, int]:
        """Skips the versions of requests."""
        reader.flexible = True
        reader.int16()  # error: unsupported versions alone, which this is not

        def skip_request() -> None:
            reader.raw(6)
            reader.tags()

        reader.array(skip_request)
        reader.int32()  # throttle
        finalized: dict[str, int] = {}
        for _ in range(reader.unsigned_varint()):
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            inner = Reader(reader.raw(size), flexible=True)
            if tag == _FINALIZED_TAG:
                finalized.update(inner.array(partial(_feature, inner)))
        return finalized


def _feature(reader: Reader) -> tuple[str, int]:
    name, highest, _ = reader.string(), reader.int16(), reader.int16()
    reader.tags()
    return name, highest
