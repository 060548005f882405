"""Names in a statement for which a setting or a part of the name is missing. Spark's own advice about them misleads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.mirror.transform_sql import SECRET
from mirror_connect.spark_jobs.compute.records_table import KEY, SECRETS, VALUE, setting_of
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, nodes

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Words with which a clause begins. Spark takes them for another name of the table if nothing follows.
_CLAUSES: Final = {
    "WHERE": "WHERE has no condition",
    "HAVING": "HAVING is not taken: a statement sees one record at a time",
    "GROUP": "GROUP BY is not taken: a statement sees one record at a time",
    "ORDER": "ORDER BY is not taken: records keep the order that they have",
    "LIMIT": "LIMIT is not taken: the next records would never be copied",
    "OUTER": "OUTER is no name for a table: write LEFT JOIN lookup r ON r.id = …",
    "SELECT": "SELECT is no name for a table: a statement is one SELECT",
    "FROM": "FROM is no name for a table: a statement has one FROM",
    "AND": "AND is no name for a table: conditions are behind WHERE",
    "OR": "OR is no name for a table: conditions are behind WHERE",
}


def check_alias(alias: str, index: int | None) -> None:
    """StatementError for a clause without an end, which would be the name of a table."""
    if (problem := _CLAUSES.get(alias.upper())) is not None:
        raise StatementError(problem, index)


def check_names(expression: Any, table: StructType) -> None:
    """StatementError for a secret or a schema that is not set, and for a field without its column.

    `table`: the type of the table `records`. A name may begin with an alias of the table.
    """
    own = {field.name.lower(): field.dataType for field in table.fields}
    # Without a secret there is no such column.
    own.setdefault(SECRETS, None)
    for node, full, _ in nodes(expression):
        if not full.endswith(".UnresolvedAttribute"):
            continue
        written = [str(part) for part in each(node.nameParts())]
        if written[0].lower() not in own and len(written) > 1:
            del written[0]
        column = written[0].lower()
        if column not in own and len(written) == 1:
            _check_single(written[0], own, at(node))
        elif column == SECRETS and len(written) > 1:
            name = written[1]
            if name.lower() not in _fields(own[SECRETS]):
                raise StatementError(f"there is no secret {name}: set {SECRET}{name}", at(node))
        elif column in (KEY, VALUE) and len(written) > 1 and own[column].typeName() == "binary":
            raise StatementError(
                f"{column} is bytes, and {'.'.join(written)} no field of it: set {setting_of(column)}, "
                f"as {written[1]} STRING",
                at(node),
            )


def _check_single(name: str, own: dict[str, Any], index: int | None) -> None:
    for column in (VALUE, KEY):
        if name.lower() in _fields(own[column]):
            raise StatementError(f"there is no column {name}: did you mean {column}.{name}?", index)


def _fields(of_type: Any) -> set[str]:
    names = getattr(of_type, "names", None)
    return set() if names is None else {str(name).lower() for name in names}
