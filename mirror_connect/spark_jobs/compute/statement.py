"""A connector's statement: what it needs of each record and what it changes, and the frame in which Spark applies it.

A record is one row before and after, in the same order. WHERE becomes the column `__keep`. Each changed column is computed
only for rows that are kept, as a filter in front of it would have it. An error becomes the row's `__error`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.spark_jobs.compute.analysed_expressions import check_analysed
from mirror_connect.spark_jobs.compute.expressions import active, column_of, null_if_it_fails
from mirror_connect.spark_jobs.compute.known_names import check_names
from mirror_connect.spark_jobs.compute.lookup_joins import (
    LookupJoin,
    Tables,
    joined,
    read_join,
    table_type,
    with_empty_lookups,
)
from mirror_connect.spark_jobs.compute.parsed_expressions import AGGREGATE, GENERATOR
from mirror_connect.spark_jobs.compute.records_table import (
    CHANGEABLE,
    COLUMNS,
    ERROR,
    KEEP,
    NO_OBJECT,
    PAD,
    ROW,
    SECRETS,
    VALUE,
    empty_table,
    frame_type,
    unknown_frame,
    with_json,
)
from mirror_connect.spark_jobs.compute.select import Select, parsed_select
from mirror_connect.spark_jobs.compute.statement_error import StatementError, spark_errors
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, kind, nodes
from mirror_connect.spark_jobs.compute.written_columns import written

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CONDITION: Final = "__where"
_JOIN: Final = "BroadcastHashJoinExec"
_BROADCAST: Final = "BroadcastExchangeExec"
_CHANGED: Final = "__changed_"
# The rule that computes constants.
_CONSTANTS: Final = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
# Of the session that reads and applies statements. The rest of the worker's settings has no effect on a statement.
SESSION: Final = {
    # A cast that fails is an error of the record, and not silently null: try_cast is for that.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # `${env:PASSWORD}` in a statement would be replaced before it is parsed.
    "spark.sql.variable.substitute": "false",
    # A table is `records`, and never a file.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    # Lookups are broadcast, because their joins say so. Nothing is decided while a query runs.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    # Of records that a preview shows: few, and one slot for them.
    "spark.sql.leafNodeDefaultParallelism": "1",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """`columns`: those of a record that Spark must get. `changes`: those that come back. Both in the table's order.

    `filters`: it has a WHERE. `lookups`: what it joins. `sql`: without the values of secrets.
    """

    sql: TransformSql
    columns: tuple[str, ...]
    changes: tuple[str, ...]
    filters: bool
    lookups: tuple[LookupJoin, ...] = ()


def statement_session(session: SparkSession) -> SparkSession:
    """A new session for statements."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 — with a session only

    # It logs each error of a statement with its trace. Whoever asks gets it as one line.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    new = session.newSession()
    for name, value in SESSION.items():
        new.conf.set(name, value)
    return new


def read_statement(session: SparkSession, sql: TransformSql) -> Statement:
    """What a statement does, as Spark reads it; nothing is executed. StatementError. `session`: of `statement_session`."""
    with active(session):
        select = parsed_select(session, sql.text, sql.lookups)
        plain = empty_table(session, sql)
        table = with_empty_lookups(plain, select.joins).alias(select.alias)
        needed: set[str] = set()
        for join in select.joins:
            for _, other in join.pairs:
                needed |= _analysed(plain.alias(select.alias), other, sql.text)[1]
        lookups = tuple(read_join(table, join, sql.text) for join in select.joins)
        if select.condition is not None:
            needed |= _check_condition(table, select.condition, sql.text)
        if select.misnamed is not None:
            for expression in select.shown:
                _analysed(table, expression, sql.text)
            raise select.misnamed
        for name, expression in select.changed.items():
            needed |= _check_changed(table, name, expression, sql.text)
        if VALUE in select.changed:
            # A tombstone stays one.
            needed.add(VALUE)
        found = Statement(
            replace(sql, secrets={}),
            tuple(name for name in (*COLUMNS, SECRETS) if name in needed),
            tuple(name for name in CHANGEABLE if name in select.changed),
            select.condition is not None,
            lookups,
        )
        if lookups:
            _check_joins(session, found)
        return found


def planned(session: SparkSession, statement: Statement) -> Any:
    """The plan by which Spark would apply a statement. Spark computes constants for it, which may take for ever.

    `session`: of `statement_session`.
    """
    frame = unknown_frame(session, frame_type(statement.columns, statement.sql))

    def table(join: LookupJoin) -> DataFrame:
        return unknown_frame(session, table_type(statement.sql, join))

    return applied(statement, frame, table)._jdf.queryExecution().executedPlan()


def _check_joins(session: SparkSession, statement: Statement) -> None:
    """Spark must find rows of lookups where records are, without another order of them. StatementError."""
    # Without constants: tasks are started one after the other, and none may wait for ever.
    own = statement_session(session)
    own.conf.set("spark.sql.optimizer.excludedRules", _CONSTANTS)
    kinds = [node.name for node in nodes(planned(own, statement))]
    joins = [name for name in kinds if "Join" in name]
    exchanges = [name for name in kinds if "Exchange" in name or "Sort" in name or "Adaptive" in name]
    if joins != [_JOIN] * len(statement.lookups) or not set(exchanges) <= {_BROADCAST}:
        strange = ", ".join(sorted({*joins, *exchanges} - {_JOIN, _BROADCAST})) or f"{len(joins)} joins"
        raise StatementError(f"Spark would not join it by a broadcast, but by {strange}, which moves records")


def applied(statement: Statement, frame: DataFrame, tables: Tables | None = None) -> DataFrame:
    """The frame with `__row`, `__pad`, `__keep`, `__error` and the changed columns, row for row and in order.

    `frame`: `__row`, `__pad` and the statement's columns (records_table.frame_type). A row with a pad is no record.
    `tables`: the frame of each lookup that is joined, with one row at most for each key of the join.
    With an error, `__keep` is false and the changed columns are null.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    session = frame.sparkSession
    with active(session):
        select = parsed_select(session, statement.sql.text, statement.sql.lookups)
        read, faults = with_json(frame, statement.sql)
        record = f.col(PAD).isNull()
        for fault in faults.values():
            record = record & ~fault
        unjoined: dict[str, Column] = {}
        if select.joins:
            assert tables is not None
            read, unjoined = joined(read.alias(select.alias), record, select.joins, statement.lookups, tables)
            for fault in unjoined.values():
                record = record & ~fault
        view = read.alias(select.alias)
        condition = f.lit(True) if select.condition is None else f.coalesce(column_of(select.condition), f.lit(False))
        judged = view.select("*", null_if_it_fails(f.when(record, f.struct(condition.alias("v")))).alias(_CONDITION))
        keep = f.coalesce(f.col(f"{_CONDITION}.v"), f.lit(False))
        table = judged.alias(select.alias)
        changed = table.select("*", *(_guarded(view, name, keep, select) for name in statement.changes))
        error = f.when(f.col(PAD).isNotNull(), f.lit(None))
        for name, fault in faults.items():
            error = error.when(fault, f.lit(NO_OBJECT[name]))
        for name, fault in unjoined.items():
            error = error.when(fault, f.lit(f"the condition of the join with {name} raised an error"))
        error = error.when(f.col(_CONDITION).isNull(), f.lit("WHERE raised an error"))
        for name in statement.changes:
            failed = keep & f.col(_CHANGED + name).isNull()
            error = error.when(failed, f.lit(f"the statement's {name} raised an error"))
        told = changed.select("*", error.alias(ERROR))
        return told.select(
            ROW,
            PAD,
            (keep & f.col(ERROR).isNull()).alias(KEEP),
            ERROR,
            *(f.when(f.col(ERROR).isNull(), f.col(f"{_CHANGED}{name}.v")).alias(name) for name in statement.changes),
        )


def _guarded(view: DataFrame, name: str, keep: Column, select: Select) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    column = column_of(select.changed[name])
    value = written(name, column, view.select(column.alias(name)).schema[name].dataType)
    if name == VALUE:
        value = f.when(f.col(f"`{select.alias}`.{VALUE}").isNotNull(), value)
    return null_if_it_fails(f.when(keep, f.struct(value.alias("v")))).alias(_CHANGED + name)


def _check_condition(table: DataFrame, expression: Any, text: str) -> set[str]:
    from pyspark.sql.types import BooleanType  # noqa: PLC0415

    found, analysed = _analysed(table, expression, text)
    if not isinstance(found.schema[0].dataType, BooleanType):
        kind_of_it = found.schema[0].dataType.simpleString()
        raise StatementError(f"WHERE has type {kind_of_it}: it must be true or false, a BOOLEAN", at(expression))
    return analysed


def _check_changed(table: DataFrame, name: str, expression: Any, text: str) -> set[str]:
    found, analysed = _analysed(table, expression, text)
    try:
        written(name, found[found.columns[0]], found.schema[0].dataType)
    except StatementError as error:
        raise StatementError(error.problem, at(expression)) from None
    return analysed


def _analysed(table: DataFrame, expression: Any, text: str) -> tuple[DataFrame, set[str]]:
    """A frame of this one column, and the columns of the table that it needs. StatementError."""
    index = at(expression)
    check_names(expression, table.schema)
    with spark_errors(text):
        found = table.select(column_of(expression).alias("it"))
        plan = found._jdf.queryExecution().analyzed()
    below = plan.child() if kind(plan) == "Project" else None
    strange = plan if below is None else None if kind(below) in ("SubqueryAlias", "LocalRelation") else below
    if strange is not None:
        why = _WHY.get(kind(strange), f"it needs {kind(strange)}, and a statement sees one record at a time")
        raise StatementError(why, index)
    item = plan.projectList().apply(0)
    check_analysed(item, index)
    return found, {str(attribute.name()) for attribute in each(item.references().toSeq())}


_WHY: Final = {
    "Aggregate": f"an aggregate function is not taken: {AGGREGATE}",
    "Generate": f"a function that makes several rows is not taken: {GENERATOR}",
    "Window": "a window is not taken: a statement sees one record at a time",
}
