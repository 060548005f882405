"""Lookups where they are: a file that is written to or missing, and a topic as compaction would leave it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.lookups import lookup_source, lookup_table
from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.app.lookups.lookup_source import read_lookup
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.record_reader import Found, ListedOffset

Record = tuple[int, int, bytes | None, bytes | None]
TOPIC = Lookup("c", "n INT", "source.customers")


def regions(folder: Path) -> Lookup:
    return Lookup("regions", "id STRING", str(folder / "regions.csv"))


def read_file(lookup: Lookup, known: object = None) -> Any:
    return read_lookup(lookup, {}, "", known, paths=LookupPaths((os.path.dirname(lookup.location),)))


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    lookup = regions(tmp_path)
    path = Path(lookup.location)
    path.write_text("id\nDE\n")
    found = read_file(lookup)
    assert found is not None
    assert found.table.to_pylist() == [{"id": "DE"}]
    assert read_file(lookup, found.stamp) is None
    os.utime(path, ns=(1, 1))
    assert read_file(lookup, found.stamp) is not None


def test_a_file_that_is_none_is_an_error_and_nothing_waits_for_it(tmp_path: Path) -> None:
    lookup = regions(tmp_path)
    with pytest.raises(BadLookupError, match="No such file"):
        read_file(lookup)
    os.mkfifo(lookup.location)
    with pytest.raises(BadLookupError, match="no regular file"):
        read_file(lookup)
    writer = os.open(lookup.location, os.O_RDWR)
    try:
        with pytest.raises(BadLookupError, match="no regular file"):
            read_file(lookup)
    finally:
        os.close(writer)
    os.unlink(lookup.location)
    os.mkdir(lookup.location)
    with pytest.raises(BadLookupError):
        read_file(lookup)


def test_a_file_is_not_taken_while_it_is_written_to_nor_one_that_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = regions(tmp_path)
    path = Path(lookup.location)
    path.write_text("id\nDE\n")
    stamps = iter(((1,), (2,)))
    monkeypatch.setattr(lookup_source, "_stamp", lambda _: next(stamps))
    with pytest.raises(BadLookupError, match="written to"):
        read_file(lookup)
    monkeypatch.undo()
    monkeypatch.setattr(lookup_source, "_MOST_FILE", 5)
    with pytest.raises(BadLookupError, match="more than"):
        read_file(lookup)


class Cluster:
    """A topic. `partitions`: (offset, timestamp, key, value) of each; `ends`: offsets behind the last ones."""

    def __init__(self, *partitions: Sequence[Record], ends: Sequence[int] = ()) -> None:
        self.partitions = partitions
        self.ends = ends or [each[-1][0] + 1 if each else 0 for each in partitions]
        self.closed = False
        self.at: TopicPartition | None = None
        self.properties: Mapping[str, str] = {}
        self.committed = False
        self.found: list[Found] = []
        self.missing = ""
        self.asker = self

    def __call__(self, properties: Mapping[str, str], _: str, *, committed: bool, **__: Any) -> Cluster:
        self.properties, self.committed = properties, committed
        return self

    def take(self) -> Reader:
        return Reader(self)

    def close(self) -> None:
        self.closed = True

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool, timeout: float
    ) -> tuple[dict[TopicPartition, ListedOffset], str]:
        assert committed
        found = {
            each: ListedOffset(0 if place == -2 else self.ends[each.partition], -1)
            for each, place in wanted.items()
            if not self.missing
        }
        return found, self.missing

    def topic_ids(self, topics: Sequence[str], timeout: float) -> dict[str, str]:
        return dict.fromkeys(topics, "an id")


class Reader:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.records: list[Record] = []

    def partitions(self, topic: str, timeout: float) -> list[int]:
        assert topic == "customers"
        return list(range(len(self.cluster.partitions)))

    def begin(self, topic: str, partition: int, offset: int) -> None:
        self.records = list(self.cluster.partitions[partition])

    def read(self) -> Found:
        if self.cluster.found:
            return self.cluster.found.pop()
        some, self.records = self.records[:2], self.records[2:]
        found = Found([(offset, timestamp, (key, value, ())) for offset, timestamp, key, value in some])
        found.end = None if some else self.cluster.ends[0]
        return found


def read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, known: object = None) -> Any:
    monkeypatch.setattr(lookup_source, "RecordReaders", cluster)
    try:
        return read_lookup(TOPIC, {"bootstrap.servers": "a:1"}, "id", known)
    finally:
        assert cluster.closed


def test_a_topic_has_the_newest_record_of_each_key(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(
        [
            (0, 50, b"a", b'{"n": 1}'),
            (1, 10, b"a", b'{"n": 2}'),  # the log's order counts, and not its times
            (3, 10, b"b", b'{"n": 3}'),
            (4, 20, None, b"no row"),
            (5, 20, b"b", None),
            (6, 20, b"c", b'{"n": 4}'),
            (7, 30, b"moved", b'{"n": 5}'),
        ],
        [],
        [(8, 25, b"moved", b'{"n": 6}'), (9, 40, b"back", b'{"n": 7}'), (11, 60, b"c", None)],
    )
    found = read(cluster, monkeypatch)
    assert found.table.to_pylist() == [{"n": 2, "key": "a"}, {"n": 5, "key": "moved"}, {"n": 7, "key": "back"}]
    assert (cluster.properties, cluster.committed) == ({"bootstrap.servers": "a:1"}, True)
    assert read(cluster, monkeypatch, found.stamp) is None
    cluster.ends = [9, 0, 12]
    assert read(cluster, monkeypatch, found.stamp) is not None


def test_records_behind_the_end_as_it_was_are_left_for_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([(0, 1, b"a", b'{"n": 1}'), (1, 1, b"a", b'{"n": 2}'), (2, 1, b"a", b'{"n": 3}')], ends=[1])
    assert read(cluster, monkeypatch).table.to_pylist() == [{"n": 1, "key": "a"}]


def test_a_topic_that_can_not_be_read_whole_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadLookupError, match="no topic customers"):
        read(Cluster(), monkeypatch)
    cluster = Cluster([(0, 1, b"a", b"{}")])
    cluster.missing = "no answer"
    with pytest.raises(ClusterUnreachable, match="no answer"):
        read(cluster, monkeypatch)
    for found, error in (
        (Found(refused="no right"), BadLookupError),
        (Found(damaged=[(0, "crc")]), BadLookupError),
        (Found(lost=True), ClusterUnreachable),
    ):
        cluster = Cluster([(0, 1, b"a", b"{}")])
        cluster.found = [found]
        with pytest.raises(error):
            read(cluster, monkeypatch)
    monkeypatch.setattr(lookup_source, "READ_S", -1.0)
    cluster = Cluster([(0, 1, b"a", b"{}")])
    cluster.found = [Found(problem="broker away")]
    with pytest.raises(ClusterUnreachable, match="broker away"):
        read(cluster, monkeypatch)


def test_a_topic_that_is_too_large_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_source, "MOST_BYTES", 20)
    records = [(offset, 1, b"a", b'{"n": 1}') for offset in range(100)]
    assert len(read(Cluster(records), monkeypatch).table) == 1
    records = [(offset, 1, b"%d" % offset, b'{"n": 1}') for offset in range(100)]
    with pytest.raises(BadLookupError, match="the most that"):
        read(Cluster(records), monkeypatch)
    assert lookup_table.MOST_BYTES > 20
