"""The batch data source `mirror` for PySpark: records of mirrored topics, and what is known of their link.

    from mirror_connect.query.data_source import register
    register(spark)
    spark.read.format("mirror").option("source.properties", "/path/to/client.properties").load("orders")

docs/query.md has its options. Spark imports this module in the processes in which it plans and reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema

from mirror_connect.query import bounds
from mirror_connect.query.bounds import Comparison, bounds_of
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import ISOLATION, ROLES, QueryLink
from mirror_connect.query.record_scan import Scan, Witness, observed, planned, read_slice
from mirror_connect.query.slices import MOST_OFFSETS, Slice
from mirror_connect.query.tables import RECORDS, SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "mirror"
WHAT: Final = "what"
CLUSTER: Final = "cluster"
TOPIC: Final = "topic"
PATH: Final = "path"
SLICE: Final = "slice.offsets"
SLACK: Final = "out.of.order"
# Spark asks a source for filters only with this setting, and refuses one that could use them without it.
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
LINK_OPTIONS: Final = (
    *("worker", "user", "connector", "source.properties", "target.properties", "source.cluster.alias"),
    ISOLATION,
)
OPTIONS: Final = (WHAT, CLUSTER, TOPIC, PATH, SLICE, SLACK, *bounds.NAMES, *LINK_OPTIONS)

_OPERATORS: Final = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.In: "in",
}


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("mirror")` known to a session, and lets Spark hand it the filters of a query."""
    spark.dataSource.register(MirrorDataSource)
    spark.conf.set(PUSHDOWN, "true")


class MirrorDataSource(datasource.DataSource):  # type: ignore[misc]  # PySpark's classes are not typed for us
    """See above."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the table that the options name. QueryError."""
        return SCHEMAS[what_of(self.options)]

    def reader(self, schema: StructType) -> MirrorReader:
        """A reader of that table. QueryError."""
        what = what_of(self.options)
        if what == RECORDS:
            return RecordsReader(self.link(), scan_of(self.options), schema, self.witness())
        return LinkReader(self.link(), what, schema, self.witness())

    def link(self) -> QueryLink:
        """Which clusters. QueryError."""
        from mirror_connect.query.link_options import link_of_options  # noqa: PLC0415 — the command brings its link

        return link_of_options(self.options)

    def witness(self) -> Witness | None:
        """Who is told how it goes on."""
        return None


def source_for(link: QueryLink, witness: Witness | None) -> type[MirrorDataSource]:
    """A data source with this link. No option, and so no plan, shows its client properties."""

    # A class of a function is pickled with what it refers to.
    class Linked(MirrorDataSource):
        def link(self) -> QueryLink:
            return link

        def witness(self) -> Witness | None:
            return witness

    return Linked


@dataclass(frozen=True)
class SlicePartition(datasource.InputPartition):  # type: ignore[misc]
    """One slice, for one task of Spark's."""

    value: Slice | None


class MirrorReader(datasource.DataSourceReader):  # type: ignore[misc]
    """What the readers share. `schema`: as Spark has it."""

    def __init__(self, link: QueryLink, schema: StructType, witness: Witness | None) -> None:
        self._link = link
        self._schema = schema
        self._witness = witness


class RecordsReader(MirrorReader):
    """Reads records."""

    def __init__(self, link: QueryLink, scan: Scan, schema: StructType, witness: Witness | None) -> None:
        super().__init__(link, schema, witness)
        self._scan = scan

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 — PySpark's name
        """Reads less where filters allow it. Spark applies all of them to what is read."""
        comparisons = [found for each in filters if (found := comparison_of(each)) is not None]
        self._scan = replace(self._scan, bounds=self._scan.bounds.narrowed(comparisons))
        return filters

    def partitions(self) -> list[SlicePartition]:
        """One for each slice. QueryError."""
        slices = list(observed(lambda: iter(asyncio.run(planned(self._link, self._scan))), self._witness))
        # Spark takes an empty list for one partition without a value.
        return [SlicePartition(each) for each in slices] or [SlicePartition(None)]

    def read(self, partition: SlicePartition) -> Iterator[Any]:
        """The records of a slice, as Arrow's batches. QueryError."""
        part = partition.value
        if part is None:
            return iter(())
        schema = to_arrow_schema(self._schema, timezone="UTC")
        return observed(lambda: read_slice(self._link, self._scan, part, schema, self._witness), self._witness)


class LinkReader(MirrorReader):
    """Reads one of the other tables. They are small."""

    def __init__(self, link: QueryLink, what: str, schema: StructType, witness: Witness | None) -> None:
        super().__init__(link, schema, witness)
        self._what = what

    def read(self, _: datasource.InputPartition) -> Iterator[Any]:
        """All rows. QueryError."""
        from mirror_connect.query.link_rows import rows_of  # noqa: PLC0415 — records need none of it

        return observed(lambda: rows_of(self._link, self._what, self._witness), self._witness)


def what_of(options: Mapping[str, str]) -> str:
    """The table that options name; records by default. QueryError for a table or an option that there is not."""
    for name in options:
        if name.lower() not in OPTIONS:
            raise QueryError(_unknown(name))
    what = options.get(WHAT) or RECORDS
    if what not in SCHEMAS:
        raise QueryError(f"{WHAT} {what}: there is no such table; give one of {', '.join(SCHEMAS)}")
    return what


def scan_of(options: Mapping[str, str]) -> Scan:
    """Which records options name. QueryError."""
    role = options.get(CLUSTER) or "source"
    if role not in ROLES:
        raise QueryError(f"{CLUSTER} {role}: give source or target")
    named = options.get(TOPIC) or options.get(PATH) or ""
    topics = tuple(filter(None, (each.strip() for each in named.split(","))))
    if not topics:
        raise QueryError(f"give {TOPIC}, the topics to read: names with commas between them")
    most = options.get(SLICE) or str(MOST_OFFSETS)
    if not most.isdecimal() or int(most) < 1:
        raise QueryError(f"{SLICE} {most}: give how many offsets a task of Spark reads, such as {MOST_OFFSETS}")
    slack = options.get(SLACK)
    return Scan(
        role,
        topics,
        bounds_of(options, int(time.time() * 1000)),
        int(most),
        None if not slack else bounds.duration(slack, SLACK),
    )


def comparison_of(found: Any) -> Comparison | None:
    """A filter of Spark's as a comparison; None for one of another kind."""
    operator = _OPERATORS.get(type(found))
    if operator is None or len(found.attribute) != 1:
        return None
    return Comparison(found.attribute[0].lower(), operator, found.value)


def _unknown(name: str) -> str:
    if name.lower().startswith(("bootstrap.", "sasl.", "ssl.", "security.", "kafka.")):
        # Spark's plans would show a password that is no option for it to hide.
        return f"option {name}: client properties come from a file; name it with source.properties or target.properties"
    near = get_close_matches(name.lower(), OPTIONS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPTIONS)}"
    return f"there is no option {name}; {hint}"
