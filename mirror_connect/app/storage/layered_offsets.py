"""The source offsets of a connector with an offset topic of its own: that topic, and below it the one of all connectors.

As Kafka's ConnectorOffsetBackingStore does it: a source offset in the connector's topic counts, else the one in the common
topic. What a client removes is removed from the common topic first, or it would count again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from mirror_connect.app.storage.offsets import Offset, OffsetEntry, Partition, SourceOffsetStore
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.records.source_offsets import OffsetOrigin

log = logging.getLogger(__name__)


class LayeredOffsets:
    """Implements SourceOffsetStore. `own`: the connector's topic. `common`: the topic of all connectors."""

    def __init__(self, own: SourceOffsetStore, common: SourceOffsetStore) -> None:
        self._own = own
        self._common = common
        # Whether the last `source_offsets` found each of its partitions in the connector's topic.
        self._found_own: list[bool] = []

    async def source_offsets(self, connector: str, partitions: Iterable[Partition]) -> list[Offset | None]:
        """See SourceOffsetStore."""
        wanted = list(partitions)
        common = await self._common.source_offsets(connector, wanted)
        own = await self._own.source_offsets(connector, wanted)
        self._found_own = [each is not None for each in own]
        return [below if each is None else each for each, below in zip(own, common, strict=True)]

    def origins(self, connector: str, partitions: Iterable[Partition]) -> list[OffsetOrigin]:
        """See SourceOffsetStore."""
        wanted = list(partitions)
        own, common = self._own.origins(connector, wanted), self._common.origins(connector, wanted)
        return [a if found else b for found, a, b in zip(self._found_own, own, common, strict=True)]

    async def entries(self, connector: str) -> list[OffsetEntry]:
        """See SourceOffsetStore."""
        return _above(await self._own.entries(connector), await self._common.entries(connector))

    async def notes(self, connector: str) -> list[OffsetEntry]:
        """See SourceOffsetStore."""
        return _above(await self._own.notes(connector), await self._common.notes(connector))

    async def put(
        self, connector: str, offsets: Iterable[tuple[Partition | None, Offset | None]], transactional_id: str = ""
    ) -> None:
        """See SourceOffsetStore. Set offsets are written to the common topic as well, for the day the setting is gone."""
        changes = list(offsets)
        removed = [(partition, offset) for partition, offset in changes if offset is None]
        if removed:
            await self._common.put(connector, removed)
        await self._own.put(connector, changes, transactional_id)
        if kept := [(partition, offset) for partition, offset in changes if offset is not None]:
            try:
                await self._common.put(connector, kept)
            except (ClusterUnreachable, NotAuthorized) as error:
                log.warning(
                    "Connector %s: its source offsets are in its own offset topic, and not in the common one: %s",
                    ConnectorName(connector),
                    error,
                )

    async def forget(self, connector: str, transactional_id: str = "") -> None:
        """See SourceOffsetStore."""
        await self._common.forget(connector)
        await self._own.forget(connector, transactional_id)


def _above(own: Sequence[OffsetEntry], common: Sequence[OffsetEntry]) -> list[OffsetEntry]:
    found = list(own)
    # Partitions are small maps, in which the order of members does not matter here.
    known = {frozenset(map(str, each.partition.items())) for each in own}
    return found + [each for each in common if frozenset(map(str, each.partition.items())) not in known]
