"""Runs a statement: parses it, checks the topics, makes their views, and hands the rows on as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.query.data_source import CLUSTER, FORMAT, TOPIC, WHAT, scan_of, source_for
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES, Answers, QueryLink
from mirror_connect.query.link_rows import offsets_path
from mirror_connect.query.parsed_plan import parsed_plan
from mirror_connect.query.record_scan import planned
from mirror_connect.query.results import Column
from mirror_connect.query.sql_errors import explained
from mirror_connect.query.statement import Statement, Table, place_of, statement_of
from mirror_connect.query.tables import POSITIONS, RECORDS, STATUS
from mirror_connect.query.witness import FileWitness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ask = Callable[[str], Any]
_ROW: Final = "row"


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a statement, which Spark has planned and not run yet."""

    frame: DataFrame
    statement: Statement
    witness: FileWitness

    @property
    def columns(self) -> list[Column]:
        """In the order of the statement."""
        return [Column(each.name, each.dataType.jsonValue()) for each in self.frame.schema.fields]

    def limited(self, rows: int) -> Result:
        """At most so many rows."""
        return replace(self, frame=self.frame.limit(rows))

    def rows(self, *, named: bool) -> Iterator[str]:
        """Each row as a JSON object, with Spark's texts for values. `named`: by the columns' names, else by numbers.

        QueryError.
        """
        from pyspark.sql import functions  # noqa: PLC0415 — it is imported with the session

        names = [each.name for each in self.columns]
        if named:
            self.check_names()
        else:
            # Two columns may have one name, and an object has each name once.
            names = [str(number) for number in range(len(names))]
        renamed = self.frame.toDF(*names)
        whole = functions.struct(*(functions.col(f"`{_quoted(name)}`") for name in names))
        lines = renamed.select(functions.to_json(whole, {"ignoreNullFields": "false"}).alias(_ROW))
        with explained(self.statement.position, lambda: self.witness.failure):
            found = lines.toArrow()
        for batch in found.to_batches():
            yield from batch.column(0).to_pylist()

    def write_parquet(self, directory: str) -> None:
        """Writes the rows as Parquet files into a new directory. QueryError."""
        self.check_names()
        with explained(self.statement.position, lambda: self.witness.failure):
            self.frame.write.mode("errorifexists").parquet(directory)

    def check_names(self) -> None:
        """QueryError if two columns have one name."""
        names = [each.name for each in self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise QueryError(f"two columns have the name {twice[0]}: give one of them another, with AS")


@dataclass(frozen=True, slots=True)
class Query:
    """What a statement is run with. `bounds`: options of each table of records. `ask`: the worker, if one is known."""

    link: QueryLink
    bounds: Mapping[str, str]
    witness: FileWitness
    ask: Ask | None = None


def planned_result(session: SparkSession, text: str, query: Query) -> Result:
    """Parses the statement, and makes its tables. QueryError."""
    with explained(lambda index: place_of(text, index), lambda: None):
        plan = parsed_plan(session, text)
    statement = statement_of(text, plan)
    link = query.link
    if query.ask is not None:
        whats = {each.what for each in statement.tables}
        link = replace(link, rest=Answers({path: query.ask(path) for path in _paths(link, whats)}))
    with explained(statement.position, lambda: query.witness.failure):
        session.dataSource.register(source_for(link, query.witness))
        for table in statement.tables:
            _make_view(session, table, link, query.bounds)
        return Result(session.sql(statement.sql), statement, query.witness)


def _paths(link: QueryLink, whats: set[str]) -> list[str]:
    found = [STATUSES] if STATUS in whats else []
    if POSITIONS in whats and link.connector is not None:
        found.append(offsets_path(link.connector))
    return found


def _make_view(session: SparkSession, table: Table, link: QueryLink, bounds: Mapping[str, str]) -> None:
    options = {WHAT: table.what}
    if table.what == RECORDS:
        options |= {CLUSTER: table.role, TOPIC: table.topic, **bounds}
        # Here its errors are one line, and come before Spark begins.
        asyncio.run(planned(link, scan_of(options)))
    frame = session.read.format(FORMAT).options(**options).load()
    frame.createOrReplaceTempView(f"`{_quoted(table.view)}`")


def _quoted(name: str) -> str:
    return name.replace("`", "``")
