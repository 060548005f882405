"""The joins of a statement with lookups: which are taken, and how a record finds its row without ceasing to be one row.

A lookup is broadcast. A record's row of it is found by a hash of the join's columns, in the stage that the record is in
anyway. That row is a struct: a column of the record's own row, with the lookup's alias as its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.mirror.lookups import LOOKUP, Column, Lookup, Type
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.spark_jobs.compute.expressions import column_of, null_if_it_fails
from mirror_connect.spark_jobs.compute.records_table import COLUMNS, HIDDEN, RECORDS, SECRETS
from mirror_connect.spark_jobs.compute.statement_error import StatementError, spark_errors
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, kind, nodes

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_WHICH: Final = "a lookup is joined by LEFT JOIN lookup r ON r.id = …"
_KEY: Final = "__key_"
_ROW: Final = "__lookup_"
_UNJOINED: Final = "__unjoined_"
_RESERVED: Final = frozenset((*COLUMNS, SECRETS, RECORDS, *HIDDEN))
# Why not, by the join's type.
_REFUSED: Final = {
    "Inner": "an inner JOIN is not taken: write LEFT JOIN, and WHERE r.id IS NOT NULL for records that it finds",
    "Cross": f"a cross join is not taken: {_WHICH}",
    "UsingJoin": f"USING is not taken: {_WHICH}",
    "NaturalJoin": f"a natural join is not taken: {_WHICH}",
}


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """One join. `keys`: the lookup's columns that it compares. `types`: as which Spark compares each of them."""

    name: str
    alias: str
    keys: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedJoin:
    """One join of a statement. `pairs`: a column of the lookup, as the parser has it, and what it is compared with."""

    lookup: Lookup
    alias: str
    pairs: tuple[tuple[Any, Any], ...]


Tables = Callable[[LookupJoin], "DataFrame"]


def parsed_joins(plan: Any, lookups: Sequence[Lookup]) -> tuple[Any, tuple[ParsedJoin, ...]]:
    """What is below a statement's joins, and the joins in the order of the text. StatementError."""
    joins: list[Any] = []
    while kind(plan) == "Join":
        joins.append(plan)
        plan = plan.left()
    joins.reverse()
    found: list[ParsedJoin] = []
    for join in joins:
        parsed = _parsed(join, lookups)
        if parsed.alias.lower() in {other.alias.lower() for other in found}:
            raise StatementError(f"two lookups have the name {parsed.alias}: write LEFT JOIN … AS r", at(join.right()))
        found.append(parsed)
    aliases = {each.alias.lower() for each in found}
    for parsed in found:
        for column, other in parsed.pairs:
            if any(_alias_of(node.java) in aliases for node in nodes(other)):
                raise StatementError("a lookup is compared with columns of records alone", at(column))
    return plan, tuple(found)


def _parsed(join: Any, lookups: Sequence[Lookup]) -> ParsedJoin:
    of_type = kind(join.joinType())
    if of_type != "LeftOuter":
        raise StatementError(_REFUSED.get(of_type, f"{join.joinType().sql()} JOIN is not taken: {_WHICH}"), at(join))
    right, alias = join.right(), None
    if kind(right) == "SubqueryAlias":
        alias, right = str(right.identifier().name()), right.child()
    if kind(right) != "UnresolvedRelation":
        # Names of Spark's plans are no use to a user.
        what = {"UnresolvedInlineTable": "VALUES", "UnresolvedTableValuedFunction": "a function"}
        raise StatementError(f"{what.get(kind(right), 'a subquery')} can't be joined: {_WHICH}", at(join.right()))
    name = ".".join(str(part) for part in each(right.multipartIdentifier()))
    lookup = next((each for each in lookups if each.name.lower() == name.lower()), None)
    if lookup is None:
        raise StatementError(f"there is no lookup {name}: declare it with {LOOKUP}{name}", at(right))
    if right.isStreaming() or not right.options().isEmpty():
        raise StatementError(f"{name} has no options and is no STREAM(…)", at(right))
    alias = alias or lookup.name
    if alias.lower() in _RESERVED or alias.startswith("__"):
        raise StatementError(
            f"a lookup can't have the name {alias}, which is another's: write … AS r", at(join.right())
        )
    if not join.condition().isDefined():
        raise StatementError(f"ON is missing: {_WHICH}", at(join))
    pairs = tuple(_pair(part, alias, lookup) for part in _parts(join.condition().get()))
    return ParsedJoin(lookup, alias, pairs)


def _parts(condition: Any) -> Iterator[Any]:
    if kind(condition) == "And":
        for child in each(condition.children()):
            yield from _parts(child)
    else:
        yield condition


def _pair(condition: Any, alias: str, lookup: Lookup) -> tuple[Any, Any]:
    if kind(condition) != "EqualTo":
        raise StatementError(
            f"ON has {alias}.column = an expression of the record, and AND between several of them: other conditions "
            "belong in WHERE or CASE",
            at(condition),
        )
    left, right = condition.left(), condition.right()
    own = [each for each in (left, right) if kind(each) == "UnresolvedAttribute" and _alias_of(each) == alias.lower()]
    if len(own) != 1:
        raise StatementError(
            f"one side of = is a column of {alias}, as {alias}.{lookup.columns[0].name}, and the other side has none",
            at(condition),
        )
    return own[0], right if own[0] is left else left


def _alias_of(expression: Any) -> str | None:
    if kind(expression) != "UnresolvedAttribute":
        return None
    parts = [str(part).lower() for part in each(expression.nameParts())]
    return parts[0] if len(parts) > 1 else None


def read_join(table: DataFrame, parsed: ParsedJoin, text: str) -> LookupJoin:
    """How Spark compares. `table`: of records, with a column for each lookup. StatementError.

    The lookup's column has to be compared as it is: two rows that differ could be equal as another type.
    """
    keys, types = [], []
    for attribute, other in parsed.pairs:
        column = _column(parsed, attribute)
        with spark_errors(text):
            plan = table.select((column_of(attribute) == column_of(other)).alias("it"))._jdf.queryExecution().analyzed()
        own = plan.projectList().apply(0).child().left()
        if kind(own) == "Cast" and _is_integer(own.child().dataType()) and _is_integer(own.dataType()):
            own = own.child()
        if kind(own) != "GetStructField" or column.type in (Type.FLOAT, Type.DOUBLE):
            advice = (
                f"write CAST(… AS {column.ddl}) on the other side" if kind(own) != "GetStructField" else "use another"
            )
            raise StatementError(
                f"{parsed.alias}.{column.name} can't be compared as it is, a {column.ddl}: {advice}", at(attribute)
            )
        keys.append(column.name)
        types.append(str(plan.projectList().apply(0).child().left().dataType().sql()))
    if len({key.lower() for key in keys}) < len(keys):
        raise StatementError(f"a column of {parsed.alias} is compared twice", at(parsed.pairs[-1][0]))
    return LookupJoin(parsed.lookup.name, parsed.alias, tuple(keys), tuple(types))


def _column(parsed: ParsedJoin, attribute: Any) -> Column:
    parts = [str(part) for part in each(attribute.nameParts())]
    found = next((each for each in parsed.lookup.columns if each.name.lower() == parts[-1].lower()), None)
    if found is None or len(parts) != len(("alias", "column")):
        there = ", ".join(each.name for each in parsed.lookup.columns)
        raise StatementError(f"{'.'.join(parts)} is no column of {parsed.lookup.name}: it has {there}", at(attribute))
    return found


def _is_integer(kind_of: Any) -> bool:
    return str(kind_of.sql()) in ("TINYINT", "SMALLINT", "INT", "BIGINT")


def with_empty_lookups(table: DataFrame, joins: Collection[ParsedJoin]) -> DataFrame:
    """The table of records with a column for each lookup, as what is behind the joins sees it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    if not joins:
        return table
    return table.select("*", *(f.lit(None).cast(f"STRUCT<{_fields(each.lookup)}>").alias(each.alias) for each in joins))


def _fields(lookup: Lookup) -> str:
    return ", ".join(f"`{each.name}`: {each.ddl}" for each in lookup.columns)


def table_type(sql: TransformSql, join: LookupJoin) -> StructType:
    """The type of a lookup's rows."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 — with a session only

    return StructType.fromDDL(_fields(next(one for one in sql.lookups if one.name == join.name)))


def joined(
    view: DataFrame, record: SparkColumn, parsed: Sequence[ParsedJoin], joins: Sequence[LookupJoin], tables: Tables
) -> tuple[DataFrame, dict[str, SparkColumn]]:
    """The frame with a column for each lookup; and by alias a condition: what is compared raised an error.

    `view`: the records, by their alias. `record`: whether a row is one. `tables` has at most one row for each key.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    own = list(view.columns)
    faults: dict[str, SparkColumn] = {}
    pairs = list(enumerate(zip(parsed, joins, strict=True)))
    keyed = view.select(
        "*",
        *(
            null_if_it_fails(f.when(record, f.struct(column_of(other).cast(of_type).alias("v")))).alias(
                f"{_KEY}{number}_{place}"
            )
            for number, (one, join) in pairs
            for place, ((_, other), of_type) in enumerate(zip(one.pairs, join.types, strict=True))
        ),
    )
    for number, (one, join) in pairs:
        names = {column.name: f"{_ROW}{number}_{column.name}" for column in one.lookup.columns}
        table = tables(join)
        table = table.select(*(f.col(f"`{name}`").alias(inner) for name, inner in names.items()))
        condition, fault = f.lit(True), f.lit(False)
        for place, (key, of_type) in enumerate(zip(join.keys, join.types, strict=True)):
            asked = f"{_KEY}{number}_{place}"
            condition &= f.col(f"{asked}.v") == f.col(names[key]).cast(of_type)
            fault |= f.col(asked).isNull()
        faults[one.alias] = record & fault
        # A row that was found has all columns that were compared.
        row = f.struct(*(f.col(inner).alias(name) for name, inner in names.items()))
        found = f.when(f.col(names[join.keys[0]]).isNotNull(), row).alias(one.alias)
        keyed = keyed.join(f.broadcast(table), condition, "left").select(*keyed.columns, found)
    # Of what was compared it remains whether that raised an error.
    told = [fault.alias(f"{_UNJOINED}{number}") for number, fault in enumerate(faults.values())]
    return (
        keyed.select(*own, *(f"`{one.alias}`" for one in parsed), *told),
        {alias: f.col(f"{_UNJOINED}{number}") for number, alias in enumerate(faults)},
    )
