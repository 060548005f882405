"""Runs a statement: parses it, checks the topics, makes their views, and hands the rows on as text."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.query.data_source import CLUSTER, FORMAT, TOPIC, WHAT, scan_of, source_for
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES, Answers, QueryLink
from mirror_connect.query.link_rows import offsets_path
from mirror_connect.query.parsed_plan import parsed_plan
from mirror_connect.query.record_scan import planned
from mirror_connect.query.results import Column, StoredRows
from mirror_connect.query.sql_errors import explained
from mirror_connect.query.statement import Statement, Table, place_of, quoted, statement_of
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

    def first_rows(self, most: int, *, named: bool) -> list[str]:
        """At most so many rows, each as a JSON object with Spark's texts for values. QueryError.

        `named`: by the columns' names, else by numbers.
        """
        lines = self._lines(named=named)
        with self._explained():
            # With the limit last, Spark reads slice after slice until there are enough.
            return [str(row[0]) for row in lines.limit(most).collect()]

    def stored_rows(self, *, named: bool) -> StoredRows:
        """All rows, in the same form. Spark writes them to files, so that no process has them in memory. QueryError."""
        lines = self._lines(named=named)
        with self._explained():
            directory = Path(tempfile.mkdtemp(dir=self.witness.directory), "rows")
            lines.write.text(str(directory))
        return StoredRows(directory)

    def _lines(self, *, named: bool) -> DataFrame:
        from pyspark.sql import functions  # noqa: PLC0415 — it is imported with the session

        names = [each.name for each in self.columns]
        if named:
            self.check_names()
        else:
            # Two columns may have one name, and an object has each name once.
            names = [str(number) for number in range(len(names))]
        renamed = self.frame.toDF(*names)
        whole = functions.struct(*(functions.col(quoted(name)) for name in names))
        return renamed.select(functions.to_json(whole, {"ignoreNullFields": "false"}).alias(_ROW))

    def write_parquet(self, directory: str, most: int) -> None:
        """Writes the rows as Parquet files into a new directory: at most so many, or all with 0. QueryError."""
        self.check_names()
        with self._explained():
            (self.frame.limit(most) if most else self.frame).write.parquet(directory)

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self.statement.position, lambda: self.witness.failure)

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
    frame.createOrReplaceTempView(quoted(table.view))
