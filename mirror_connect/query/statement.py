"""The SQL that a query may be: one SELECT over the tables of a link; and the statement that Spark gets for it.

Spark's names of tables have letters, digits and underscores, and topics have more. So each table is a temporary view, and
its name in the text is replaced. Positions in Spark's messages are those of the text that the user wrote.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import ROLES, near_names
from mirror_connect.query.parsed_plan import Named, ParsedPlan, Relation
from mirror_connect.query.tables import RECORDS, SCHEMAS

SINGLE: Final = tuple(name for name in SCHEMAS if name != RECORDS)
KNOWN: Final = f"source.TOPIC, target.TOPIC, {', '.join(SINGLE)}"

# The nodes of a SELECT. Whatever else Spark parses, now or in a later release, is refused.
_PLANS: Final = frozenset(
    (
        *("Project", "Filter", "Aggregate", "Sort", "GlobalLimit", "LocalLimit", "LimitAll", "Offset", "Tail"),
        *("Distinct", "Deduplicate", "Union", "Intersect", "Except", "Join", "LateralJoin", "SubqueryAlias"),
        *("UnresolvedRelation", "UnresolvedWith", "UnresolvedHaving", "UnresolvedQualify", "Generate", "Expand"),
        *("UnresolvedInlineTable", "OneRowRelation", "LocalRelation", "Pivot", "Unpivot", "Window"),
        *("WithWindowDefinition", "Sample", "UnresolvedHint", "UnresolvedTableValuedFunction"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "RepartitionByExpression", "Repartition"),
        "PipeOperator",
    )
)
# They call any method of Java, or read a file or a URL that they, or records, name.
_FUNCTIONS: Final = frozenset(
    (
        *("reflect", "java_method", "try_reflect"),
        *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"),
        *("from_xml", "to_xml", "schema_of_xml", "xpath", "xpath_boolean", "xpath_double", "xpath_float"),
        *("xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string"),
    )
)
_TABLE_FUNCTIONS: Final = frozenset(
    (
        *("range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
        *("json_tuple", "stack", "variant_explode", "variant_explode_outer"),
    )
)
_PART: Final = r"(?:`(?:[^`]|``)+`|\w+)"
_WRITTEN: Final = re.compile(rf"(?:TABLE\s+)?(?P<name>{_PART}(?:\s*\.\s*{_PART})?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a statement. `view`: its name as Spark's view. `role` and `topic`: of the table records."""

    what: str
    view: str
    role: str = ""
    topic: str = ""

    @property
    def name(self) -> str:
        """As the user writes it."""
        return f"{self.role}.{self.topic}" if self.what == RECORDS else self.what


@dataclass(frozen=True, slots=True)
class Statement:
    """`text`: the user's; `sql`: what Spark gets. `_shifts`: indexes in `sql` → how far the text is behind from there on."""

    text: str
    sql: str
    tables: tuple[Table, ...]
    _shifts: tuple[tuple[int, int], ...] = ()

    def position(self, index: int) -> str:
        """Where in the user's text an index of Spark's is."""
        place = bisect_right(self._shifts, (index, 1 << 62)) - 1
        return place_of(self.text, index + (self._shifts[place][1] if place >= 0 else 0))


def place_of(text: str, index: int) -> str:
    """`line 1, column 8` of a character."""
    before = text[: max(0, min(index, len(text)))]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - (before.rfind(chr(10)) + 1) + 1}"


def statement_of(text: str, plan: ParsedPlan) -> Statement:
    """The statement for Spark. QueryError if it is no SELECT, or reads or calls what a query must not."""
    for node in plan.plans:
        if node.name not in _PLANS:
            raise QueryError(
                f"only one SELECT is taken, without anything that writes, runs programs or reads files: "
                f"{node.name}{_where(text, node)}"
            )
    for each in plan.expressions:
        if each.name.startswith("ExpressionWith"):
            raise QueryError(f"IDENTIFIER is not taken{_where(text, each)}: write the name itself")
    for each in plan.functions:
        if each.parts[-1].lower() in _FUNCTIONS:
            raise QueryError(f"function {each.name} is not taken{_where(text, each)}: it reaches outside of the query")
    for each in plan.table_functions:
        if each.parts[-1].lower() not in _TABLE_FUNCTIONS:
            raise QueryError(
                f"table function {each.name} is not taken{_where(text, each)}: "
                f"there are {', '.join(sorted(_TABLE_FUNCTIONS))}"
            )
    # A SELECT without a relation has no table, and reads nothing.
    tables = _tables(text, plan)
    return _with_views(text, plan.relations, tables)


def _tables(text: str, plan: ParsedPlan) -> dict[tuple[str, ...], Table]:
    common = {each.lower() for each in plan.common}
    taken = {*common, *SINGLE}
    found: dict[tuple[str, ...], Table] = {}
    for each in plan.relations:
        if each.extras:
            raise QueryError(f"table {each.name}{_where(text, each)}: a table has no options and is no stream here")
        if len(each.parts) == 1:
            name = each.parts[0].lower()
            # In its scope a common table expression goes before a view of its name.
            if name in common and name not in SINGLE:
                continue
            if name not in SINGLE:
                near = f"; for a topic write source.{each.name}" if name not in ROLES else ""
                raise QueryError(
                    f"there is no table {each.name}{_where(text, each)}: tables are {KNOWN}"
                    f"{near_names(name, list(SINGLE)) or near}"
                )
            found[each.parts] = Table(name, name)
            continue
        role = each.parts[0].lower()
        if len(each.parts) != 2 or role not in ROLES:
            advice = " (quote a name with dots: source.`a.b`)" if role in ROLES else ""
            raise QueryError(f"there is no table {each.name}{_where(text, each)}: tables are {KNOWN}{advice}")
        topic = each.parts[1]
        key = (role, topic)
        if key not in found:
            found[key] = Table(RECORDS, _free_name(role, topic, taken), role, topic)
            taken.add(found[key].view.lower())
    return found


def _free_name(role: str, topic: str, taken: set[str]) -> str:
    """The topic's own name, so that columns can be qualified by it, unless something else has it."""
    name, number = topic, 1
    while name.lower() in taken:
        name = f"{role}.{topic}" if number == 1 else f"{role}.{topic}.{number}"
        number += 1
    return name


def _with_views(text: str, relations: Sequence[Relation], tables: dict[tuple[str, ...], Table]) -> Statement:
    places: dict[int, tuple[int, str]] = {}
    for each in relations:
        table = tables.get((each.parts[0].lower(), *each.parts[1:])) if len(each.parts) == 2 else None
        if table is None:
            continue
        written = None if each.at is None else _WRITTEN.match(text, each.at)
        if written is None or not _is(written["name"], each.parts):
            raise QueryError(
                f"table {each.name}{_where(text, each)}: write its name itself, without comments or IDENTIFIER"
            )
        places[written.start("name")] = written.end("name"), quoted(table.view)
    pieces, shifts, at, size = [], [], 0, 0
    for begin, (end, name) in sorted(places.items()):
        pieces += [text[at:begin], name]
        size += begin - at + len(name)
        at = end
        shifts.append((size, end - size))
    pieces.append(text[at:])
    return Statement(text, "".join(pieces), tuple(tables.values()), tuple(shifts))


def _is(written: str, parts: Sequence[str]) -> bool:
    """Whether this text is the name with these parts."""
    found = re.findall(_PART, written)
    return [each[1:-1].replace("``", "`") if each.startswith("`") else each for each in found] == list(parts)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return f"`{name.replace('`', '``')}`"


def _where(text: str, node: Named) -> str:
    return "" if node.at is None else f" ({place_of(text, node.at)})"
