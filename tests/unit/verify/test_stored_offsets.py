"""Source offsets are read from the newest record of each key, of one connector or the lowest of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.source_offsets import source_offset_key, source_offset_value
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.consumer.record_reader import FoundRecord
from mirror_connect.verify import stored_offsets as module
from mirror_connect.verify.cluster_logs import Piece
from mirror_connect.verify.clusters import EARLIEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Client, Positions
from mirror_connect.verify.stored_offsets import stored_offsets

Written = tuple[str, str, int, int | None]
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Log:
    """A piece for each record. `ends`: counts the logs that were closed."""

    def __init__(self, pieces: Sequence[Piece], closed: list[str]) -> None:
        self._pieces = list(pieces)
        self._closed = closed

    async def read(self) -> Piece | None:
        return self._pieces.pop(0) if self._pieces else None

    async def close(self) -> None:
        self._closed.append("log")


class Cluster:
    """One partition of connect-offsets."""

    pieces: Sequence[Piece]
    closed: list[str]

    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {key: 0 if at == EARLIEST else len(self.pieces) for key, at in wanted.items()}

    def log(self, key: TopicPartition, start: int, end: int) -> Log:
        assert (key, start, end) == (TopicPartition("connect-offsets", 0), 0, len(self.pieces))
        return Log(self.pieces, self.closed)

    async def close(self) -> None:
        self.closed.append("cluster")


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    Cluster.pieces, Cluster.closed = [], []
    monkeypatch.setattr(module, "ClusterLogs", Cluster)
    monkeypatch.setattr(module, "ClusterAdmin", lambda *_, **__: _Admin())
    return Cluster


class _Admin:
    def topics(self) -> dict[str, int]:
        return {"connect-offsets": 1}


class _Refused:
    def topics(self) -> dict[str, int]:
        raise AdminError("the target cluster can't be reached", -1)


def piece(record: FoundRecord, damaged: Sequence[tuple[int, str]] = ()) -> Piece:
    return Piece([record], record[0] + 1, 1, log_append_time=False, damaged=damaged, at_end=False)


def write(*records: Written) -> None:
    """(connector, cluster, partition of orders, offset); None: a tombstone."""
    Cluster.pieces = [
        piece(
            (
                at,
                1,
                (
                    source_offset_key(connector, alias, "orders", number),
                    None if offset is None else source_offset_value(offset),
                    (),
                ),
            )
        )
        for at, (connector, alias, number, offset) in enumerate(records)
    ]


async def read(connector: str | None = "m", topic: str = "connect-offsets") -> Positions:
    return await stored_offsets(Client({}, {}), topic, "A", connector)


async def test_the_newest_record_of_a_partition_counts() -> None:
    write(("m", "A", 0, 5), ("m", "A", 1, 7), ("m", "A", 0, 9))
    assert await read() == {ORDERS_0: 9, ORDERS_1: 7}
    assert Cluster.closed == ["log", "cluster"]


async def test_a_deleted_source_offset_is_none() -> None:
    write(("m", "A", 0, 5), ("m", "A", 1, 7), ("m", "A", 0, None))
    assert await read() == {ORDERS_1: 7}


async def test_other_clusters_and_other_connectors_do_not_count() -> None:
    write(("m", "B", 0, 5), ("other", "A", 0, 3), ("m", "A", 0, 9))
    assert await read() == {ORDERS_0: 9}


@pytest.mark.parametrize("offsets", [(9, 3), (3, 9)])
async def test_without_a_connector_the_lowest_of_all_counts(offsets: tuple[int, int]) -> None:
    write(("m", "A", 0, offsets[0]), ("other", "A", 0, offsets[1]))
    assert await read(None) == {ORDERS_0: 3}


async def test_records_of_other_keys_are_ignored() -> None:
    write(("m", "A", 0, 5))
    Cluster.pieces = [*Cluster.pieces, piece((1, 1, (b"no key", source_offset_value(1), ())))]
    assert await read() == {ORDERS_0: 5}


async def test_a_topic_that_does_not_exist_is_named() -> None:
    with pytest.raises(CannotCompareError, match="has no topic connect-offset: positions"):
        await read(topic="connect-offset")


async def test_a_damaged_batch_is_an_error_and_the_connections_end() -> None:
    Cluster.pieces = [piece((0, 1, (None, None, ())), damaged=[(4, "its checksum is wrong")])]
    with pytest.raises(CannotCompareError, match="connect-offsets is damaged at offset 4: its checksum is wrong"):
        await read()
    assert Cluster.closed == ["cluster"]


async def test_a_cluster_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ClusterAdmin", lambda *_, **__: _Refused())
    with pytest.raises(CannotCompareError, match="can't be reached"):
        await read()
