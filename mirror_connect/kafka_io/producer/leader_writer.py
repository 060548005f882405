"""Writes for the group's leader: in transactions that end with its lease, and that its successor fences.

Kafka Connect's leader does the same (KIP-618): a new leader takes the next epoch of the transactional id
`connect-cluster-<group.id>`. From then on nothing of a former leader is committed, however late it arrives. A check of the
lease alone can't promise that: the process or its network may stop between the check and the arrival.

Without the right to the transactional id only the lease remains, which is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.rights import MissingRight
from mirror_connect.kafka_io.client.worker_lease import WorkerLease, lease_over

log = logging.getLogger(__name__)

Entry = tuple[bytes, bytes | None]

CLAIM_S: Final = 20.0


class TransactionalIdDenied(MissingRight):
    """The right to use the transactional id is missing."""


class Transactions(Protocol):
    """One producer with the transactional id. After a call has failed, the only valid call is `close`."""

    async def claim(self, seconds: float) -> None:
        """Takes the next epoch: fences every former producer with the id, and aborts its open transaction.

        TransactionalIdDenied, NotAuthorized, ClusterUnreachable.
        """

    async def write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        """Writes all entries or none, in one transaction that is committed when this returns.

        OutcomeUnknown; NotAuthorized, ClusterUnreachable: nothing was written.
        """

    def close(self) -> None:
        """Stops the producer."""


class PlainWriter(Protocol):
    """Writes without a transaction, within the lease (LogClients)."""

    async def write(self, topic: str, entries: Sequence[Entry]) -> None:
        """Writes entries in order; LeaseOver, OutcomeUnknown, NotAuthorized, ClusterUnreachable."""


class LeaderWriter:
    """The leader's writes. `new` creates a producer; `plain` writes instead if the transactional id is denied."""

    def __init__(
        self, transactional_id: str, new: Callable[[], Transactions], plain: PlainWriter, lease: WorkerLease
    ) -> None:
        self._transactional_id = transactional_id
        self._new = new
        self._plain = plain
        self._lease = lease
        self._transactions: Transactions | None = None
        self._denied = False
        self._claimed = False
        self._logged = False

    @property
    def claimed(self) -> bool:
        """Whether `write` may be called. After a failed write it must not."""
        return self._claimed

    async def claim(self) -> None:
        """Fences every other leader. Its writes are committed by now, or never will be: read the topic after this.

        LeaseOver, NotAuthorized, ClusterUnreachable.
        """
        self.relinquish()
        # A former leader must not fence the new one: the lease is checked before the claim and after it.
        if (left := self._lease.remaining()) <= 0:
            raise lease_over()
        transactions = self._new()
        try:
            await transactions.claim(min(left, CLAIM_S))
        except TransactionalIdDenied as denied:
            transactions.close()
            self._warn_once(denied)
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
        """Writes all entries or none. Claim first.

        After an error, claim again and read the topic, as there may have been another leader.

        LeaseOver (also without a claim), NotAuthorized, ClusterUnreachable: nothing was written. OutcomeUnknown: the entries
        may be written, but never after the next claim.
        """
        if not self._claimed:
            raise lease_over()
        if self._denied:
            # The lease of `plain` may be another one.
            await self._lease.enough_for_a_message()
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
        """Writes nothing until the next claim."""
        transactions, self._transactions, self._claimed = self._transactions, None, False
        if transactions is not None:
            transactions.close()

    def _warn_once(self, denied: MissingRight) -> None:
        if not self._logged:
            self._logged = True
            log.warning(
                "%s. Without it only the lease stops a replaced leader from writing configs",
                denied,
            )
