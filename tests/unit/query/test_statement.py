"""What a statement may be, and what Spark gets for it. The plans here are made up; Spark's own are in tests/spark."""

from __future__ import annotations

import pytest

from mirror_connect.query.errors import QueryError
from mirror_connect.query.parsed_plan import Named, ParsedPlan, Relation
from mirror_connect.query.statement import Statement, Table, place_of, statement_of


def plan(text: str, *relations: str, common: tuple[str, ...] = ()) -> ParsedPlan:
    """A plan with these relations, where the text has them: `source.orders`, or `source|a.b` for a quoted name."""
    found, at = [], 0
    for each in relations:
        parts = tuple(each.split("|")) if "|" in each else tuple(each.split("."))
        written = ".".join(f"`{part}`" if not part.replace("_", "").isalnum() else part for part in parts)
        at = text.index(written, at)
        found.append(Relation(parts, at))
        at += len(written)
    return ParsedPlan(plans=[Named(("Project",), 0)], relations=found, common=set(common))


def statement(text: str, *relations: str, common: tuple[str, ...] = ()) -> Statement:
    return statement_of(text, plan(text, *relations, common=common))


def test_a_topic_is_a_view_of_its_own_name() -> None:
    found = statement("SELECT orders.key FROM source.orders WHERE offset > 5", "source.orders")
    assert found.sql == "SELECT orders.key FROM `orders` WHERE offset > 5"
    assert found.tables == (Table("records", "orders", "source", "orders"),)


def test_a_topic_of_any_name_can_be_asked() -> None:
    text = "SELECT * FROM target.`A.my-orders` o JOIN source.`my-orders` USING (key)"
    found = statement(text, "target|A.my-orders", "source|my-orders")
    assert found.sql == "SELECT * FROM `A.my-orders` o JOIN `my-orders` USING (key)"
    assert [each.name for each in found.tables] == ["target.A.my-orders", "source.my-orders"]


def test_one_topic_of_both_clusters_has_two_names() -> None:
    found = statement("SELECT * FROM source.t JOIN target.t JOIN source.t", "source.t", "target.t", "source.t")
    assert found.sql == "SELECT * FROM `t` JOIN `target.t` JOIN `t`"
    assert len(found.tables) == 2


def test_a_view_has_no_name_of_a_common_table_expression_or_of_another_topic() -> None:
    text = "WITH orders AS (SELECT 1), ranges AS (SELECT 2) SELECT * FROM source.orders, source.Orders, orders, ranges"
    found = statement(text, "source.orders", "source.Orders", "orders", "ranges", common=("orders", "ranges"))
    views = [each.view for each in found.tables]
    assert views == ["source.orders", "source.Orders.2", "ranges"]


def test_the_other_tables_keep_their_names() -> None:
    found = statement("SELECT * FROM positions JOIN Status", "positions", "Status")
    assert found.sql == found.text
    assert [each.view for each in found.tables] == ["positions", "status"]


def test_a_role_is_taken_in_any_case_and_a_table_by_itself() -> None:
    assert (
        statement(
            "TABLE Source . orders",
        ).sql
        == "TABLE Source . orders"
    )
    text = "TABLE Source . orders"
    parsed = ParsedPlan(relations=[Relation(("Source", "orders"), 0)])
    assert statement_of(text, parsed).sql == "TABLE `orders`"


def test_positions_are_those_of_the_users_text() -> None:
    text = "SELECT x\nFROM source.orders a JOIN target.`A.orders` b\nWHERE nothing = 1"
    found = statement(text, "source.orders", "target|A.orders")
    for word in ("x", "a JOIN", "b\n", "WHERE", "nothing", "1"):
        assert found.position(found.sql.index(word)) == place_of(text, text.index(word)), word
    assert place_of(text, text.index("nothing")) == "line 3, column 7"
    assert place_of("ab", 9) == "line 1, column 3"


@pytest.mark.parametrize(
    ("text", "relation", "line"),
    [
        ("SELECT * FROM orders", "orders", "there is no table orders (line 1, column 15): tables are source.TOPIC, "),
        ("SELECT * FROM position", "position", "near it there is positions"),
        ("SELECT * FROM source", "source", "tables are source.TOPIC, target.TOPIC, ranges, positions, "),
        ("SELECT * FROM parquet.`/etc/x`", "parquet|/etc/x", "there is no table parquet./etc/x (line 1, column 15)"),
        ("SELECT * FROM source.a.b", "source.a.b", "(quote a name with dots: source.`a.b`)"),
        ("SELECT * FROM spark_catalog.source.t", "spark_catalog.source.t", "there is no table spark_catalog.source.t"),
    ],
)
def test_a_table_that_there_is_not_is_named(text: str, relation: str, line: str) -> None:
    with pytest.raises(QueryError) as refused:
        statement(text, relation)
    assert line in str(refused.value)


def test_an_option_of_a_table_is_refused() -> None:
    parsed = ParsedPlan(relations=[Relation(("source", "t"), 14, extras=True)])
    with pytest.raises(QueryError, match="a table has no options and is no stream"):
        statement_of("SELECT * FROM source.t", parsed)


def test_a_name_with_a_comment_in_it_is_refused() -> None:
    text = "SELECT * FROM source/* ! */.t"
    with pytest.raises(QueryError, match="write its name itself, without comments"):
        statement_of(text, ParsedPlan(relations=[Relation(("source", "t"), 14)]))


@pytest.mark.parametrize(
    ("parsed", "line"),
    [
        (ParsedPlan(plans=[Named(("InsertIntoStatement",), 0)]), r"InsertIntoStatement \(line 1, column 1\)"),
        (ParsedPlan(plans=[Named(("Project",), 0), Named(("ScriptTransformation",), None)]), "ScriptTransformation$"),
        (ParsedPlan(functions=[Named(("system", "builtin", "Reflect"), 7)]), "function system.builtin.Reflect is not"),
        (ParsedPlan(functions=[Named(("from_xml",), 7)]), "function from_xml is not taken"),
        (ParsedPlan(functions=[Named(("XPath_String",), 7)]), "function XPath_String is not taken"),
        (ParsedPlan(functions=[Named(("schema_of_avro",), 7)]), "function schema_of_avro is not taken"),
        (ParsedPlan(table_functions=[Named(("read_files",), 14)]), "table function read_files is not taken"),
        (ParsedPlan(expressions=[Named(("ExpressionWithUnresolvedIdentifier",), 7)]), "IDENTIFIER is not taken"),
    ],
)
def test_what_is_no_select_is_refused(parsed: ParsedPlan, line: str) -> None:
    with pytest.raises(QueryError, match=line):
        statement_of("SELECT 1", parsed)


def test_a_select_without_a_table_is_taken() -> None:
    parsed = ParsedPlan(plans=[Named(("OneRowRelation",), None)], functions=[Named(("upper",), 7)])
    assert statement_of("SELECT upper('x')", parsed).tables == ()
