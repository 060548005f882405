"""The SELECT of a connector's statement, as Spark's parser reads it: which columns it changes, and its condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.spark_jobs.compute.known_names import check_alias
from mirror_connect.spark_jobs.compute.lookup_joins import ParsedJoin, parsed_joins
from mirror_connect.spark_jobs.compute.parsed_expressions import check_parsed
from mirror_connect.spark_jobs.compute.records_table import CHANGEABLE, COLUMNS, RECORDS
from mirror_connect.spark_jobs.compute.statement_error import StatementError, spark_errors
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ONE: Final = "a statement is one SELECT … FROM records, with or without LEFT JOIN of lookups and WHERE"
_SEVERAL: Final = "Several fields become one value by named_struct('id', value.id, 'name', value.name) AS value"
# Why not, by the plan's class.
_REFUSED: Final = {
    "Aggregate": "GROUP BY is not taken: a statement sees one record at a time",
    "UnresolvedHaving": "HAVING is not taken: a statement sees one record at a time",
    "UnresolvedQualify": "QUALIFY is not taken: a statement sees one record at a time",
    "Sort": "ORDER BY is not taken: records keep the order that they have",
    "GlobalLimit": "LIMIT is not taken: the next records would never be copied",
    "LocalLimit": "LIMIT is not taken: the next records would never be copied",
    "LimitAll": "LIMIT is not taken: the next records would never be copied",
    "Offset": "OFFSET is not taken: WHERE says which records are copied",
    "Distinct": "DISTINCT is not taken: a statement sees one record at a time",
    "Union": "UNION is not taken: each record becomes one record, or none",
    "Intersect": "INTERSECT is not taken: a statement sees one record at a time",
    "Except": "EXCEPT is not taken: a statement sees one record at a time",
    "Generate": "LATERAL VIEW is not taken: each record becomes one record, or none",
    "UnresolvedWith": f"WITH is not taken: {_ONE}",
    "WithWindowDefinition": "WINDOW is not taken: a statement sees one record at a time",
    "Sample": "TABLESAMPLE is not taken: use WHERE, as pmod(xxhash64(key), 100) < 10",
    "UnresolvedHint": "a hint is not taken",
    "UnresolvedSubqueryColumnAliases": "names of columns behind the table are not taken: name them in SELECT",
    "Project": f"a subquery in FROM is not taken: {_ONE}",
    "Filter": f"a subquery in FROM is not taken: {_ONE}",
    "UnresolvedInlineTable": f"VALUES is not taken: {_ONE}",
    "UnresolvedTableValuedFunction": f"a function in FROM is not taken: {_ONE}",
    "OneRowRelation": f"FROM records is missing: {_ONE}",
}


@dataclass(frozen=True, slots=True)
class Select:
    """`changed`: Spark's expressions by column. `condition`: that of WHERE. `alias`: by which columns can be qualified.

    `misnamed`: what is wrong with the name of one of `shown`, which is all that SELECT has. That is told after all else that
    is wrong with them, as another name is no use then.
    """

    alias: str
    changed: dict[str, Any]
    condition: Any | None
    joins: tuple[ParsedJoin, ...]
    shown: tuple[Any, ...] = ()
    misnamed: StatementError | None = None


def parsed_select(session: SparkSession, text: str, lookups: Sequence[Lookup] = ()) -> Select:
    """The SELECT of a text, which may join these lookups. StatementError."""
    with spark_errors(text):
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    if kind(plan) != "Project":
        raise _refused(plan)
    below, condition = plan.child(), None
    if kind(below) == "Filter":
        condition, below = below.condition(), below.child()
    # Before names of columns and tables, which are no use to such a statement.
    for expression in (*_expressions(plan), *([] if condition is None else [condition]), *_conditions(below)):
        check_parsed(session, expression, text)
    below, joins = parsed_joins(below, lookups)
    alias = RECORDS
    if kind(below) == "SubqueryAlias":
        alias = str(below.identifier().name())
        check_alias(alias, at(below))
        below = below.child()
    if kind(below) != "UnresolvedRelation":
        raise _refused(below)
    _check_table(below)
    for join in joins:
        if join.alias.lower() == alias.lower():
            raise StatementError(f"records and a lookup have the name {alias}: write LEFT JOIN … AS r", at(plan))
    changed, misnamed = _changed(plan, alias)
    return Select(alias, changed, condition, joins, tuple(_expressions(plan)), misnamed)


def _conditions(plan: Any) -> Iterator[Any]:
    """Those of joins."""
    while kind(plan) == "Join":
        if plan.condition().isDefined():
            yield plan.condition().get()
        plan = plan.left()


def _expressions(plan: Any) -> Iterator[Any]:
    """All that SELECT has, without their names, but for `*`."""
    for item in each(plan.projectList()):
        if kind(item) in ("Alias", "UnresolvedAlias", "MultiAlias"):
            yield item.child()
        elif not kind(item).startswith("UnresolvedStar"):
            yield item


def _check_table(relation: Any) -> None:
    name = ".".join(str(part) for part in each(relation.multipartIdentifier()))
    if name.lower() != RECORDS:
        raise StatementError(f"there is no table {name}: the table is {RECORDS}", at(relation))
    if relation.isStreaming() or not relation.options().isEmpty():
        raise StatementError(f"{RECORDS} has no options and is no STREAM(…)", at(relation))


def _changed(plan: Any, alias: str) -> tuple[dict[str, Any], StatementError | None]:
    """The changed columns, and what is wrong with the first wrong name."""
    changed: dict[str, Any] = {}
    kept: set[str] = set()
    places: dict[str, int | None] = {}
    try:
        for item in each(plan.projectList()):
            _add(item, alias, changed, kept, places)
        for column in kept & changed.keys():
            raise StatementError(f"column {column} is there twice. {_SEVERAL}", places[column])
    except StatementError as error:
        return changed, error
    return changed, None


def _add(item: Any, alias: str, changed: dict[str, Any], kept: set[str], places: dict[str, int | None]) -> None:
    name = kind(item)
    if name == "UnresolvedStar":
        of = [str(part) for part in each(item.target().get())] if item.target().isDefined() else []
        if of and [part.lower() for part in of] != [alias.lower()]:
            raise StatementError(f"{'.'.join(of)}.* is not taken: name the columns", at(item))
        return
    if name.startswith("UnresolvedStar"):
        raise StatementError("* EXCEPT is not taken: a column that is left out keeps what it has", at(item))
    if name == "UnresolvedAttribute":
        own = _own_column(item, alias)
        if own is not None:
            kept.add(own)
            return
    if name != "Alias":
        shown = item.child() if name in ("UnresolvedAlias", "MultiAlias") else item
        raise StatementError(f"{shown.sql()} has no name: write … AS value. {_SEVERAL}", at(shown))
    column, expression = str(item.name()).lower(), item.child()
    _check_name(column, str(item.name()), item)
    if kind(expression) == "UnresolvedAttribute" and _own_column(expression, alias) == column:
        kept.add(column)
        return
    if column in changed:
        raise StatementError(f"column {column} is there twice. {_SEVERAL}", at(item))
    changed[column] = expression
    places[column] = at(item)


def _own_column(attribute: Any, alias: str) -> str | None:
    """The column of the record that this is; None if it is none."""
    parts = [str(part).lower() for part in each(attribute.nameParts())]
    if len(parts) > 1 and parts[0] == alias.lower():
        parts = parts[1:]
    return parts[0] if len(parts) == 1 and parts[0] in COLUMNS else None


def _check_name(column: str, written: str, item: Any) -> None:
    if column in CHANGEABLE:
        return
    if column in COLUMNS:
        why = "a RegexRouter in transforms names topics" if column == "topic" else "records keep their place"
        raise StatementError(f"{column} can't be changed: {why}", at(item))
    raise StatementError(f"a record has no column {written}: a statement may change {', '.join(CHANGEABLE)}", at(item))


def _refused(plan: Any) -> StatementError:
    return StatementError(_REFUSED.get(kind(plan), f"{kind(plan)} is not taken: {_ONE}"), at(plan))
