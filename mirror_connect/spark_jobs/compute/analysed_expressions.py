"""Refuses what gives another result for the same record, or reaches outside of it, as Spark's analyser shows it."""

from __future__ import annotations

import re
from typing import Any, Final

from mirror_connect.spark_jobs.compute.literals import CLOCK, DATES
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import CATALYST, LEAVES, at, each, kind, nodes, simple

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
# As Spark trims them. `epoch` is 1970, and always the same.
_OF_THE_CLOCK: Final = re.compile(r"[\x00-\x20\x7f]*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)
_ANOTHER: Final = "a record that is copied again after a crash would become another one"


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
    if str(node.dataType().typeName()) not in DATES:
        return None
    text = next(each(node.children()))
    if not text.foldable() or kind(text.dataType()) != "StringType":
        return None
    if kind(text) != "Literal":
        return "a date or time of constants is taken only as a literal, as DATE '2020-01-31'"
    if _OF_THE_CLOCK.match(str(text.value())) is not None:
        return f"{text.sql()} is not taken: {CLOCK}"
    return None
