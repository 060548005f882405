"""A statement as Spark's own parser reads it: its plans, functions and relations, with where they are in the text.

Spark's trees are Scala's case classes. All that a statement holds is found by going through their fields: subqueries, common
table expressions, the branches of a multiple INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAN: Final = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_PRODUCT: Final = "scala.Product"
_ITERABLE: Final = "scala.collection.Iterable"
_TREES: Final = "org.apache.spark.sql.catalyst."
_EXECUTION: Final = "org.apache.spark.sql.execution."
_RELATION: Final = "UnresolvedRelation"
_FUNCTION: Final = "UnresolvedFunction"
_TABLE_FUNCTION: Final = "UnresolvedTableValuedFunction"
_WITH: Final = "UnresolvedWith"


@dataclass(frozen=True, slots=True)
class Named:
    """Something with a name in parts. `at`: the index of its first character; None if Spark doesn't know it."""

    parts: tuple[str, ...]
    at: int | None

    @property
    def name(self) -> str:
        """As one writes it without quotes."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Relation(Named):
    """A table. `extras`: it has options, or is read as a stream."""

    extras: bool = False


@dataclass(slots=True)
class ParsedPlan:
    """What a statement holds. `plans`: the classes of its plans. `expressions`: those of other nodes."""

    plans: list[Named] = field(default_factory=list)
    expressions: list[Named] = field(default_factory=list)
    functions: list[Named] = field(default_factory=list)
    table_functions: list[Named] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    common: set[str] = field(default_factory=set)


def parsed_plan(session: SparkSession, text: str) -> ParsedPlan:
    """The statement's plan. PySpark's ParseException."""
    root = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    return _Walk(session).through(root)


class _Walk:
    def __init__(self, session: SparkSession) -> None:
        from py4j.java_gateway import JavaObject, is_instance_of  # noqa: PLC0415 — with PySpark only

        gateway = session.sparkContext._gateway
        self._object = JavaObject
        self._is: Callable[[Any, str], bool] = lambda value, name: bool(is_instance_of(gateway, value, name))
        # By class: asking the JVM takes a fraction of a millisecond.
        self._kinds: dict[str, str] = {}
        self._found = ParsedPlan()

    def through(self, root: Any) -> ParsedPlan:
        waiting = [root]
        while waiting:
            # In the order of the text, so that the first fault is told.
            waiting = [*self._of(waiting[0]), *waiting[1:]]
        return self._found

    def _of(self, value: Any) -> list[Any]:
        """Takes down what a value is; returns what it holds."""
        if not isinstance(value, self._object):
            return []
        full: str = value.getClass().getName()
        kind = self._kinds.get(full) or self._kinds.setdefault(full, self._kind(value, full))
        if kind == _PLAN:
            self._plan(value, full.rpartition(".")[2])
        elif kind == _PRODUCT and full.startswith(_TREES):
            self._expression(value, full.rpartition(".")[2])
        if kind == _ITERABLE:
            return list(_each(value.iterator()))
        return [] if kind == "" else list(_each(value.productIterator()))

    def _kind(self, value: Any, full: str) -> str:
        if self._is(value, _PLAN):
            return _PLAN
        if self._is(value, _ITERABLE):
            return _ITERABLE
        fields = full.startswith((_TREES, _EXECUTION, "scala.")) and self._is(value, _PRODUCT)
        return _PRODUCT if fields else ""

    def _plan(self, node: Any, name: str) -> None:
        at = _at(node)
        self._found.plans.append(Named((name,), at))
        if name == _RELATION:
            extras = bool(node.isStreaming()) or not node.options().isEmpty()
            self._found.relations.append(Relation(_texts(node.multipartIdentifier()), at, extras))
        elif name == _TABLE_FUNCTION:
            self._found.table_functions.append(Named(_texts(node.name()), at))
        elif name == _WITH:
            self._found.common |= {str(each._1()) for each in _each(node.cteRelations().iterator())}

    def _expression(self, node: Any, name: str) -> None:
        if name == _FUNCTION:
            self._found.functions.append(Named(_texts(node.nameParts()), _at(node)))
        elif name.startswith(("Unresolved", "ExpressionWith")):
            self._found.expressions.append(Named((name,), _at(node)))


def _texts(sequence: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in _each(sequence.iterator()))


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _at(node: Any) -> int | None:
    found = node.origin().startIndex()
    return int(found.get()) if found.isDefined() else None
