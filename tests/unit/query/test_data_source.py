"""The options of the data source, and its filters. That it reads is shown by tests/spark/query/test_records.py."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.cloudpickle import dumps, loads
from pyspark.sql import datasource

from mirror_connect.query.bounds import Bounds, Comparison
from mirror_connect.query.data_source import (
    LinkReader,
    MirrorDataSource,
    RecordsReader,
    comparison_of,
    scan_of,
    source_for,
    what_of,
)
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import QueryLink
from mirror_connect.query.record_scan import Scan

LINK = QueryLink({"source": {"bootstrap.servers": "a:9092", "sasl.jaas.config": "TOP-SECRET"}}, {})
AT = datetime(2026, 11, 21, 8, tzinfo=UTC)


def test_topics_come_from_the_option_or_the_path() -> None:
    assert scan_of({"topic": "a, b"}) == Scan("source", ("a", "b"), Bounds())
    assert scan_of({"path": "a", "cluster": "target", "from.offset": "5", "slice.offsets": "10"}) == Scan(
        "target", ("a",), Bounds(first=5), 10
    )
    assert scan_of({"topic": "a", "out.of.order": "1min"}).slack_ms == 60_000


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "give topic, the topics"),
        ({"topic": ","}, "give topic, the topics"),
        ({"topic": "a", "cluster": "both"}, "cluster both: give source or target"),
        ({"topic": "a", "slice.offsets": "0"}, "slice.offsets 0: give how many"),
        ({"topic": "a", "last": "soon"}, "last soon is no length of time"),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, str], line: str) -> None:
    with pytest.raises(QueryError) as refused:
        scan_of(options)
    assert str(refused.value).startswith(line)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"what": "groups"}, "what groups: there is no such table; give one of records, ranges"),
        ({"topics": "a"}, "there is no option topics; did you mean topic?"),
        ({"xyz": "a"}, "there is no option xyz; there are what, cluster"),
        ({"sasl.jaas.config": "TOP-SECRET"}, "option sasl.jaas.config: client properties come from a file"),
    ],
)
def test_an_option_that_there_is_not_is_named_without_its_value(options: dict[str, str], line: str) -> None:
    with pytest.raises(QueryError) as refused:
        what_of(options)
    assert str(refused.value).startswith(line)
    assert "TOP-SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (datasource.GreaterThanOrEqual(("timestamp",), AT), Comparison("timestamp", ">=", AT)),
        (datasource.In(("Offset",), (1, 2)), Comparison("offset", "in", (1, 2))),
        (datasource.EqualTo(("headers", "key"), "a"), None),
        (datasource.Not(datasource.EqualTo(("offset",), 1)), None),
        (datasource.IsNull(("key",)), None),
    ],
)
def test_filters_become_comparisons(given: Any, expected: Comparison | None) -> None:
    assert comparison_of(given) == expected


def test_filters_narrow_what_is_read_and_stay_with_spark() -> None:
    reader = source_for(LINK, None)({"topic": "a"}).reader(None)
    assert isinstance(reader, RecordsReader)
    filters = [datasource.GreaterThan(("offset",), 5), datasource.IsNotNull(("offset",))]
    assert list(reader.pushFilters(filters)) == filters
    assert reader._scan.bounds == Bounds(first=6)


def test_a_link_travels_with_the_class_and_shows_no_secret() -> None:
    # As Spark sends it to its processes.
    source = loads(dumps(source_for(LINK, None)({"what": "positions"})))
    assert source.link().client("source")["sasl.jaas.config"] == "TOP-SECRET"
    assert source.name() == "mirror"
    assert isinstance(source.reader(None), LinkReader)
    assert "TOP-SECRET" not in repr((source, source.link(), source.options, source.reader(None)))


def test_options_alone_make_a_link() -> None:
    with pytest.raises(QueryError, match="the source cluster is not known: give its client properties, or a connector"):
        MirrorDataSource({"topic": "a"}).link().client("source")
