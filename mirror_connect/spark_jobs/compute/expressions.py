"""Spark's expressions as its parser and its analyser make them: what they call, and columns of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.spark_jobs.compute.statement_error import SUBQUERY, StatementError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_CATALYST: Final = "org.apache.spark.sql.catalyst.expressions."
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
_XPATH: Final = f"{_CATALYST}xml."
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


def each(sequence: Any) -> Iterator[Any]:
    """The members of a sequence of Scala's."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def nodes(expression: Any) -> Iterator[Any]:
    """An expression and all below it, in the order of the text."""
    yield expression
    for child in each(expression.children()):
        yield from nodes(child)


def kind(node: Any) -> str:
    """The simple name of a node's class."""
    return str(node.getClass().getName()).rpartition(".")[2].rstrip("$")


def at(node: Any) -> int | None:
    """Where a node begins in the statement; None if Spark does not know it."""
    found = node.origin().startIndex()
    return int(found.get()) if found.isDefined() else None


def check_parsed(session: SparkSession, expression: Any, text: str) -> None:
    """Refuses what can be no expression of one record, as far as the parser shows it. `text`: the statement."""
    for node in nodes(expression):
        name = kind(node)
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
    start, stop = literal.origin().startIndex(), literal.origin().stopIndex()
    if str(literal.dataType().typeName()) in _DATES and start.isDefined() and stop.isDefined():
        written = text[int(start.get()) : int(stop.get()) + 1]
        if _FIXED_LITERAL.match(written) is None:
            raise StatementError(f"{written} is not taken: {_CLOCK}", at(literal))


def _check_member(function: str, array: Any, index: Any) -> None:
    if _function(array) == "array" and all(kind(part) != "UnresolvedAttribute" for part in nodes(index)):
        _check_simple(function, index)


def _check_simple(function: str, argument: Any) -> None:
    for part in nodes(argument):
        if kind(part) not in _SIMPLE:
            raise StatementError(
                f"{function} needs a literal here: Spark computes it when it reads the statement", at(part)
            )


def _function(node: Any) -> str | None:
    """The function that a node of the parser's calls, in small letters."""
    return str(list(each(node.nameParts()))[-1]).lower() if kind(node) == "UnresolvedFunction" else None


def _check_computed_at_once(function: str, node: Any) -> None:
    """Such an argument could have any size, and the check of a config must not compute."""
    arguments = list(each(node.arguments()))
    for number in _LITERALS.get(function.lower(), ()):
        if number < len(arguments):
            _check_simple(function, arguments[number])
    if function.lower() in _MEMBERS and len(arguments) > 1:
        _check_member(function, arguments[0], arguments[1])
    first = _COMPUTED_AT_ONCE.get(function.lower())
    if first is None:
        return
    for argument in arguments[first:]:
        for part in nodes(argument):
            name = kind(part)
            if _function(part) in _OF_LITERALS:
                continue
            if name != "Literal":
                what = "its text" if first == 0 else "its schema and options"
                raise StatementError(f"{function} is taken only with {what} as literals", at(part) or at(node))


def check_analysed(expression: Any, index: int | None) -> None:
    """Refuses what gives another result for the same record, or reaches outside. `index`: where the expression begins."""
    for node in nodes(expression):
        full = str(node.getClass().getName())
        name = kind(node)
        place = at(node) if at(node) is not None else index
        if name in _TIMES:
            raise StatementError(
                f"{node.prettyName()} is not taken: it is the time at which Spark began an epoch, some minutes ago: "
                "processed_at is the time at which a record is processed",
                place,
            )
        if not full.startswith(_CATALYST) or full.startswith(_XPATH) or name in _OUTSIDE:
            raise StatementError(f"{node.prettyName()} is not taken: it reaches outside of the record", place)
        if name in ("Cast", "ParseToDate", "ParseToTimestamp"):
            _check_cast(node, place)
        if name == "AesEncrypt" and node.iv().sql() in _NO_IV and node.mode().sql().upper() != "'ECB'":
            raise StatementError(
                "aes_encrypt is not taken without its iv: a record that is copied again after a crash would become "
                "another one",
                place,
            )
        if not node.deterministic() and all(child.deterministic() for child in each(node.children())):
            raise StatementError(
                f"{node.prettyName()} is not taken: a record that is copied again after a crash would become another one: "
                "make it of the record's own columns, as sha2(concat(topic, partition, offset), 256)",
                place,
            )


def _check_cast(node: Any, place: int | None) -> None:
    """Spark makes a time of a constant such as `now` when it plans a query."""
    text = next(each(node.children()))
    if str(node.dataType().typeName()) not in _DATES or not text.foldable() or kind(text.dataType()) != "StringType":
        return
    if kind(text) != "Literal":
        raise StatementError("a date or time of constants is taken only as a literal, as DATE '2020-01-31'", place)
    if _OF_THE_CLOCK.match(str(text.value())) is not None:
        raise StatementError(f"{text.sql()} is not taken: {_CLOCK}", place)


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
