"""Spark's expressions as its parser and its analyser make them: what they call, and columns of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.compute.statement_error import SUBQUERY, StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import CATALYST, LEAVES, at, each, kind, nodes, simple

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

# Of expressions within each other. Spark needs stack for each of them, again and again.
MOST_LEVELS: Final = 200
# What the time is, which Spark asks once for each epoch.
_TIMES: Final = frozenset(
    ("CurrentDate", "CurrentTime", "CurrentTimestamp", "Now", "LocalTimestamp", "CurrentBatchTimestamp")
)
# They call any method of Java, or code that is not Spark's. They read files, or ask other hosts. Or they tell of Spark and
# of whom it runs as.
_OUTSIDE: Final = frozenset(
    (
        *("CallMethodViaReflection", "TryReflect", "ScalaUDF", "PythonUDF", "PythonUDAF"),
        *("XmlToStructs", "StructsToXml", "SchemaOfXml"),
        *("FromAvro", "ToAvro", "SchemaOfAvro", "FromProtobuf", "ToProtobuf"),
        *("CurrentUser", "CurrentDatabase", "CurrentCatalog", "CurrentPath", "SparkVersion"),
    )
)
_XPATH: Final = f"{CATALYST}xml."
_NO_IV: Final = ("''", "X''", "CAST('' AS BINARY)")
_ONE: Final = "a statement sees one record at a time"
AGGREGATE: Final = f"it is an aggregate function, and {_ONE}. Ask topics such questions with mirror-connect sql"
GENERATOR: Final = "it makes several rows, and each record becomes one record, or none"
_WINDOWS: Final = frozenset(("WindowExpression", "UnresolvedWindowExpression"))
_FILES: Final = "it can read files and ask other hosts"
# Spark computes these arguments when it reads a statement, from the one with this number on.
_COMPUTED_AT_ONCE: Final[Mapping[str, int]] = {
    "schema_of_json": 0,
    "schema_of_csv": 0,
    "from_json": 1,
    "from_csv": 1,
    "to_json": 1,
    "to_csv": 1,
}
_OF_LITERALS: Final = frozenset(("map", "schema_of_json", "schema_of_csv"))
# It computes these, too: they say what type or parser a function has. By the numbers of the arguments.
_LITERALS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("to_char", "to_varchar", "to_number", "try_to_number", "to_binary", "try_to_binary"), (1,)),
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor", "collate", "to_time", "try_to_time"), (1,)),
    **dict.fromkeys(("date_part", "datepart", "extract"), (0,)),
    **dict.fromkeys(("variant_get", "try_variant_get"), (1, 2)),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "current_time"), (0,)),
    "shuffle": (1,),
    "randstr": (0, 1),
    "uniform": (0, 1, 2),
    **dict.fromkeys(("window", "session_window"), (1, 2, 3)),
}
_SIMPLE: Final = frozenset(("Literal", "UnaryMinus", "UnaryPositive", "Cast", "NamedArgumentExpression"))
# Of an array that the statement itself makes, Spark computes which member is meant.
_MEMBERS: Final = frozenset(("element_at", "try_element_at", "get"))
_DATES: Final = frozenset(("date", "timestamp", "timestamp_ntz"))
# As Spark trims them. `epoch` is 1970, and always the same.
_OF_THE_CLOCK: Final = re.compile(r"[\x00-\x20\x7f]*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)
_FIXED_LITERAL: Final = re.compile(r"\w+\s*['\"]\s*([+-]?\d|epoch\b)", re.IGNORECASE)
_ANOTHER: Final = "a record that is copied again after a crash would become another one"
_CLOCK: Final = (
    "it is the time at which Spark reads the statement, or begins an epoch: "
    "processed_at is the time at which a record is processed"
)


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


def null_if_it_fails(column: Column) -> Column:
    """Null where the column raises an error. An error in the JVM would end the epoch, and name no record."""
    jvm = _jvm()
    expression = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)
    return column_of(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression))


def column_of(expression: Any) -> Column:
    """A column of an expression of Spark's parser."""
    from pyspark.sql import Column  # noqa: PLC0415 — with a session only

    return Column(_jvm().org.apache.spark.sql.classic.ExpressionUtils.column(expression))


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
            _check_computed_at_once(function, node)
        elif name == "UnresolvedExtractValue":
            _check_member("[…]", node.child(), node.extraction())
        elif name == "Literal":
            _check_literal(node, text)
        if name.startswith("UnresolvedStar"):
            raise StatementError("* is not taken within an expression: name the columns", at(node))
        if name in _WINDOWS:
            raise StatementError("a window is not taken: a statement sees one record at a time", at(node))
        if "Subquery" in name or name in ("Exists", "ListQuery"):
            # Spark has the place of EXISTS as that of the whole statement.
            raise StatementError(SUBQUERY, at(node.plan()) if name == "Exists" else at(node))
        if name.startswith("ExpressionWith") or name in ("NamedParameter", "PosParameter"):
            raise StatementError("a parameter is not taken: write the value or the name itself", at(node))


def _check_literal(literal: Any, text: str) -> None:
    """The parser makes a time of `TIMESTAMP 'now'`, so that its text alone tells."""
    if str(literal.dataType().typeName()) not in _DATES:
        return
    start, stop = literal.origin().startIndex(), literal.origin().stopIndex()
    if start.isDefined() and stop.isDefined():
        written = text[int(start.get()) : int(stop.get()) + 1]
        if _FIXED_LITERAL.match(written) is None:
            raise StatementError(f"{written} is not taken: {_CLOCK}", at(literal))


def _check_member(function: str, array: Any, index: Any) -> None:
    if _function(array) == "array" and all(part.name != "UnresolvedAttribute" for part in nodes(index)):
        _check_simple(function, index)


def _check_simple(function: str, argument: Any) -> None:
    for part in nodes(argument):
        if part.name not in _SIMPLE:
            raise StatementError(
                f"{function} needs a literal here: Spark computes it when it reads the statement", at(part.java)
            )


def _function(node: Any) -> str | None:
    """The function that a node of the parser's calls, in small letters."""
    return str(list(each(node.nameParts()))[-1]).lower() if kind(node) == "UnresolvedFunction" else None


def _check_computed_at_once(function: str, node: Any) -> None:
    """Such an argument could have any size, and the check of a config must not compute."""
    known = function.lower()
    if known not in _LITERALS and known not in _MEMBERS and known not in _COMPUTED_AT_ONCE:
        return
    arguments = list(each(node.arguments()))
    for number in _LITERALS.get(known, ()):
        if number < len(arguments):
            _check_simple(function, arguments[number])
    if known in _MEMBERS and len(arguments) > 1:
        _check_member(function, arguments[0], arguments[1])
    first = _COMPUTED_AT_ONCE.get(known)
    if first is None:
        return
    for argument in arguments[first:]:
        for part in nodes(argument):
            if _function(part.java) in _OF_LITERALS:
                continue
            if part.name != "Literal":
                what = "its text" if first == 0 else "its schema and options"
                raise StatementError(f"{function} is taken only with {what} as literals", at(part.java) or at(node))


def check_analysed(expression: Any, index: int | None) -> None:
    """Refuses what gives another result for the same record, or reaches outside. `index`: where the expression begins."""
    for node, full, _ in nodes(expression):
        if full not in LEAVES and (problem := _problem_of(node, full)) is not None:
            place = at(node)
            raise StatementError(problem, place if place is not None else index)


def _problem_of(node: Any, full: str) -> str | None:
    name = simple(full)
    if name in _TIMES:
        return (
            f"{node.prettyName()} is not taken: it is the time at which Spark began an epoch, some minutes ago: "
            "processed_at is the time at which a record is processed"
        )
    if not full.startswith(CATALYST) or full.startswith(_XPATH) or name in _OUTSIDE:
        return f"{node.prettyName()} is not taken: it reaches outside of the record"
    if name in ("Cast", "ParseToDate", "ParseToTimestamp") and (problem := _problem_of_cast(node)) is not None:
        return problem
    if name == "AesEncrypt" and node.iv().sql() in _NO_IV and node.mode().sql().upper() != "'ECB'":
        return f"aes_encrypt is not taken without its iv: {_ANOTHER}"
    if not node.deterministic() and all(child.deterministic() for child in each(node.children())):
        return (
            f"{node.prettyName()} is not taken: {_ANOTHER}: "
            "make it of the record's own columns, as sha2(concat(topic, partition, offset), 256)"
        )
    return None


def _problem_of_cast(node: Any) -> str | None:
    """Spark makes a time of a constant such as `now` when it plans a query."""
    if str(node.dataType().typeName()) not in _DATES:
        return None
    text = next(each(node.children()))
    if not text.foldable() or kind(text.dataType()) != "StringType":
        return None
    if kind(text) != "Literal":
        return "a date or time of constants is taken only as a literal, as DATE '2020-01-31'"
    if _OF_THE_CLOCK.match(str(text.value())) is not None:
        return f"{text.sql()} is not taken: {_CLOCK}"
    return None


def _jvm() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._jvm


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Makes a session the one whose settings Spark's parser and analyser read, in this thread."""
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
