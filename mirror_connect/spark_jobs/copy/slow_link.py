"""What is said when the link to the target is too slow for a transaction, or for a single batch in one."""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow

RAISE: Final = (
    "raise producer.override.transaction.timeout.ms and producer.override.request.timeout.ms, and if need be "
    "transaction.max.timeout.ms of the target's brokers. It is tried again"
)


class Carried(NamedTuple):
    """A transaction gave the link so many bytes, which did not all arrive in these seconds."""

    bytes: int
    seconds: float

    @property
    def rate(self) -> str:
        """Its upper bound."""
        return f"the link carried less than {self.bytes / max(self.seconds, 0.001) / 1000:,.1f} kB/s"


def batch_too_slow(feed: TransactionalFlow, carried: Carried, timeout_ms: int) -> Problem:
    """The problem that one batch of a partition takes longer than a transaction may."""
    return Problem(
        str(feed.flow),
        ProblemCode.PARTITION_STALLED_LINK_TOO_SLOW,
        f"{feed.flow} is stalled at offset {feed.flow.begins_at}",
        f"the target has not acknowledged a batch of {feed.bytes_in_flight:,} bytes within transaction.timeout.ms "
        f"({timeout_ms}); {carried.rate}",
        RAISE,
    )


def transaction_too_slow(carried: Carried, timeout_ms: int) -> str:
    """Why a transaction of several batches is aborted."""
    return (
        f"the target has not acknowledged all of its {carried.bytes:,} bytes within transaction.timeout.ms ({timeout_ms}); "
        f"{carried.rate}. The next one has fewer"
    )
