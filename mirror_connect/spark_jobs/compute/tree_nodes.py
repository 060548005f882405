"""Spark's trees of expressions and plans, as Python walks them: what each node is, and where it is in the statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

# Where Spark's own expressions are.
CATALYST: Final = "org.apache.spark.sql.catalyst.expressions."
# Nothing is below them, and no record gets another one.
LEAVES: Final = frozenset(
    (
        f"{CATALYST}Literal",
        f"{CATALYST}AttributeReference",
        "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute",
    )
)


class Node(NamedTuple):
    """An expression or a plan. `full`: the name of its class. `level`: in how many others it is."""

    java: Any
    full: str
    level: int

    @property
    def name(self) -> str:
        """The simple name of its class."""
        return simple(self.full)


def nodes(expression: Any) -> Iterator[Node]:
    """An expression and all below it, in the order of the text.

    Each call of the JVM takes some 0.1 ms, and a statement may have thousands of literals. So few are made.
    """
    waiting = [(expression, 0)]
    while waiting:
        java, level = waiting.pop()
        full = str(java.getClass().getName())
        yield Node(java, full, level)
        if full not in LEAVES:
            children = java.children()
            waiting += [(children.apply(number), level + 1) for number in reversed(range(children.length()))]


def kind(node: Any) -> str:
    """The simple name of a node's class."""
    return simple(str(node.getClass().getName()))


def simple(full: str) -> str:
    """The simple name of a class. An object of Scala's has no $."""
    return full.rpartition(".")[2].rstrip("$")


def at(node: Any) -> int | None:
    """Where a node begins in the statement; None if Spark does not know it."""
    found = node.origin().startIndex()
    return int(found.get()) if found.isDefined() else None


def each(sequence: Any) -> Iterator[Any]:
    """The members of a sequence of Scala's."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
