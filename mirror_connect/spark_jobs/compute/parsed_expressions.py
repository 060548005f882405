"""Refuses what no expression of one record can hold, as far as Spark's parser shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.compute.literals import check_computed_at_once, check_literal, check_member
from mirror_connect.spark_jobs.compute.statement_error import SUBQUERY, StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import at, each, nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of expressions within each other. Spark needs stack for each of them, again and again.
MOST_LEVELS: Final = 200
_ONE: Final = "a statement sees one record at a time"
AGGREGATE: Final = f"it is an aggregate function, and {_ONE}. Ask topics such questions with mirror-connect sql"
GENERATOR: Final = "it makes several rows, and each record becomes one record, or none"
_WINDOWS: Final = frozenset(("WindowExpression", "UnresolvedWindowExpression"))
_FILES: Final = "it can read files and ask other hosts"
# Why not, by the group in which Spark documents a function.
_GROUPS: Final[Mapping[str, str]] = {
    "agg_funcs": AGGREGATE,
    "window_funcs": f"it is of windows, and {_ONE}",
    "generator_funcs": GENERATOR,
    "xml_funcs": _FILES,
    "avro_funcs": _FILES,
    "protobuf_funcs": _FILES,
}
# By function. Spark's own are the same in each session.
_groups: dict[str, str] = {}


def _group(session: SparkSession, function: str) -> str | None:
    """Of a function; None if Spark has none of this name."""
    if function not in _groups:
        found = session._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.expressions().get(function)
        if not found.isDefined():
            return None
        _groups[function] = str(found.get()._1().getGroup())
    return _groups[function]


def check_parsed(session: SparkSession, expression: Any, text: str) -> None:
    """Refuses what can be no expression of one record, as far as the parser shows it. `text`: the statement."""
    for found in nodes(expression):
        node, name = found.java, found.name
        if found.level >= MOST_LEVELS:
            raise StatementError(
                f"it has more than {MOST_LEVELS} expressions within each other, as a chain of operators has: "
                "write it with fewer",
                at(node),
            )
        if name == "UnresolvedFunction":
            function = [str(part) for part in each(node.nameParts())][-1]
            if (why := _GROUPS.get(_group(session, function.lower()) or "")) is not None:
                raise StatementError(f"{function} is not taken: {why}", at(node))
            check_computed_at_once(function, node)
        elif name == "UnresolvedExtractValue":
            check_member("[…]", node.child(), node.extraction())
        elif name == "Literal":
            check_literal(node, text)
        if name.startswith("UnresolvedStar"):
            raise StatementError("* is not taken within an expression: name the columns", at(node))
        if name in _WINDOWS:
            raise StatementError("a window is not taken: a statement sees one record at a time", at(node))
        if "Subquery" in name or name in ("Exists", "ListQuery"):
            # Spark has the place of EXISTS as that of the whole statement.
            raise StatementError(SUBQUERY, at(node.plan()) if name == "Exists" else at(node))
        if name.startswith("ExpressionWith") or name in ("NamedParameter", "PosParameter"):
            raise StatementError("a parameter is not taken: write the value or the name itself", at(node))
