"""What only the group's leader writes: in transactions that end with its lease, and that its successor fences.

As Kafka Connect's transactional leader (KIP-618): who becomes the leader takes the next epoch of the transactional id
`connect-cluster-<group.id>`. From then on nothing of a former leader is committed, however late it comes. A look at the
lease alone can't promise that, as a process may stop, or its network, between the look and the arrival.

Without the right to the transactional id there is the lease alone, which is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.rights import MissingRight
from mirror_connect.kafka_io.client.write_lease import WriteLease, lease_over

log = logging.getLogger(__name__)

Entry = tuple[bytes, bytes | None]

CLAIM_S: Final = 20.0


class TransactionalIdDenied(MissingRight):
    """The right to use the transactional id is missing."""


class Transactions(Protocol):
    """One producer with the transactional id. Once a call has failed it is of no more use, and is to be closed."""

    async def claim(self, seconds: float) -> None:
        """Takes the next epoch: every producer that had the id before is fenced, an open transaction of it aborted.

        TransactionalIdDenied, NotAuthorized, ClusterUnreachable.
        """

    async def write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        """Writes all entries or none, in one transaction that is committed when this returns.

        OutcomeUnknown; NotAuthorized, ClusterUnreachable: nothing was written.
        """

    def close(self) -> None:
        """Sends no more."""


class PlainWriter(Protocol):
    """Writes without a transaction, within the lease (LogClients)."""

    async def write(self, topic: str, entries: Sequence[Entry]) -> None:
        """Writes entries in order; LeaseOver, OutcomeUnknown, NotAuthorized, ClusterUnreachable."""


class LeaderWriter:
    """`new` makes a producer; `plain` writes instead where the transactional id is denied."""

    def __init__(
        self, transactional_id: str, new: Callable[[], Transactions], plain: PlainWriter, lease: WriteLease
    ) -> None:
        self._transactional_id = transactional_id
        self._new = new
        self._plain = plain
        self._lease = lease
        self._transactions: Transactions | None = None
        self._denied = False
        self._claimed = False
        self._told = False

    @property
    def claimed(self) -> bool:
        """Whether `write` may be called; not any more after it has failed."""
        return self._claimed

    async def claim(self) -> None:
        """Fences every other leader. What it had written is committed, or never will be: the topic is to be read after this.

        LeaseOver, NotAuthorized, ClusterUnreachable.
        """
        self.relinquish()
        # Who leads no more must not fence who does: looked at before, and again when it is done.
        if (left := self._lease.remaining()) <= 0:
            raise lease_over()
        transactions = self._new()
        try:
            await transactions.claim(min(left, CLAIM_S))
        except TransactionalIdDenied as denied:
            transactions.close()
            self._tell(denied)
            self._denied = True
        except BaseException:
            transactions.close()
            raise
        else:
            self._denied = False
            if self._lease.remaining() <= 0:
                transactions.close()
                raise lease_over()
            self._transactions = transactions
        self._claimed = True

    async def write(self, topic: str, entries: Sequence[Entry]) -> None:
        """Writes all entries or none. Claim first, and again after an error; then read the topic, as another may have led.

        LeaseOver (also without a claim), NotAuthorized, ClusterUnreachable: nothing was written. OutcomeUnknown: it may be
        written, but nothing comes later than the next claim.
        """
        if not self._claimed:
            raise lease_over()
        if self._denied:
            await self._plain.write(topic, entries)
            return
        assert self._transactions is not None
        if (left := self._lease.remaining()) <= 0:
            self.relinquish()
            raise lease_over()
        try:
            await self._transactions.write(topic, entries, left)
        except BaseException:
            self.relinquish()
            raise

    def relinquish(self) -> None:
        """Writes no more until the next claim."""
        transactions, self._transactions, self._claimed = self._transactions, None, False
        if transactions is not None:
            transactions.close()

    def _tell(self, denied: MissingRight) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "%s. Without it a leader that was replaced while it hung is kept from writing configs by its lease alone",
                denied,
            )
