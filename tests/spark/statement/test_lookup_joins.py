"""Statements that join lookups: each record gets its row or none, and keeps its place."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pytest

from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin, table_type
from mirror_connect.spark_jobs.compute.records_table import ERROR, KEEP, NO_OBJECT, PAD, ROW, frame_type
from mirror_connect.spark_jobs.compute.statement import Statement, applied
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.tree_nodes import nodes
from tests.spark.statement.statements import REGIONS, SCHEMA, looked_up

pytestmark = pytest.mark.spark

JOINED: Final = "SELECT concat(CAST(key AS STRING), '-', r.region) AS key FROM records LEFT JOIN regions r ON r.id = "


def plan_of(frame: Any) -> list[str]:
    """The kinds of the executed plan's steps, from above."""
    return [node.name for node in nodes(frame._jdf.queryExecution().executedPlan())]


def lookup_rows(session: Any, found: Statement, records: Sequence[dict[str, Any]], rows_of: Any) -> tuple[Any, Any]:
    """What becomes of records, and the frame. `rows_of`: of each lookup, by its name."""
    kinds = frame_type(found.columns, found.sql)
    values = [tuple({ROW: number, **each}.get(name) for name in kinds.names) for number, each in enumerate(records)]

    def frame(of_rows: Any, schema: Any) -> Any:
        # An RDD: rows that Spark knows, it would join while it plans.
        return session.createDataFrame(session.sparkContext.parallelize(of_rows, 1), schema)

    after = applied(found, frame(values, kinds), lambda join: frame(rows_of[join.name], table_type(found.sql, join)))
    return [each.asDict() for each in after.collect()], after


def test_a_lookup_gives_each_record_its_row_or_none(session: Any) -> None:
    found = looked_up(session, JOINED + "value.country", schema=SCHEMA)
    assert (found.columns, found.changes) == (("key", "value"), ("key",))
    assert found.lookups == (LookupJoin("regions", "r", ("id",), ("STRING",)),)
    values = [b'{"country": "DE"}', b'{"country": "FR"}', b'{"country": "??"}', b"{}", None, b"["]
    after, _ = lookup_rows(
        session,
        found,
        [*({"key": b"k", "value": each} for each in values), {PAD: b"pad"}],
        {"regions": [("DE", "EU", 1), ("FR", None, 2)]},
    )
    assert [(each[KEEP], each["key"]) for each in after] == [
        (True, b"k-EU"),
        *[(True, None)] * 4,
        *[(False, None)] * 2,
    ]
    assert after[5][ERROR] == NO_OBJECT["value"]


def test_a_record_that_finds_no_row_can_be_left_out(session: Any) -> None:
    found = looked_up(
        session, "SELECT * FROM records x LEFT JOIN regions ON regions.number = partition WHERE regions.id <> 'b'"
    )
    assert (found.columns, found.changes, found.filters) == (("partition",), (), True)
    after, _ = lookup_rows(
        session,
        found,
        [{"partition": each} for each in (1, 2, 3, None)],
        {"regions": [("a", None, 1), ("b", None, 2)]},
    )
    assert [(each[KEEP], each[ERROR]) for each in after] == [(True, None), *[(False, None)] * 3]


def test_two_lookups_are_joined_by_several_columns_in_one_stage_and_the_order_stays(session: Any) -> None:
    prices = Lookup("prices", "product BIGINT, day INT, price DECIMAL(10,2)")
    found = looked_up(
        session,
        """SELECT concat_ws('/', r.region, CAST(p.price AS STRING), s.region) AS key FROM records
           LEFT JOIN regions r ON r.id = CAST(key AS STRING) AND r.number = partition % 2
           LEFT JOIN prices AS p ON offset % 7 = p.product AND p.day = partition
           LEFT JOIN regions s ON s.number = CAST(CAST(value AS STRING) AS INT)""",
        REGIONS,
        prices,
    )
    assert found.lookups == (
        LookupJoin("regions", "r", ("id", "number"), ("STRING", "INT")),
        LookupJoin("prices", "p", ("product", "day"), ("BIGINT", "INT")),
        LookupJoin("regions", "s", ("number",), ("INT",)),
    )
    chance = random.Random(18)
    records = [
        {
            "key": chance.choice((None, b"a", b"b", b"\xff")),
            "partition": chance.choice((None, 0, 1)),
            "offset": chance.randrange(1000),
            "value": chance.choice((None, b"0", b"1", b"x")),
            PAD: chance.choice((None, None, None, b"pad")),
        }
        for _ in range(5000)
    ]
    regions = [("a", "A0", 0), ("b", "B1", 1)]
    cents = [(product, day, f"{product}.{day}0") for product in range(6) for day in range(2)]
    after, frame = lookup_rows(
        session, found, records, {"regions": regions, "prices": [(*each[:2], Decimal(each[2])) for each in cents]}
    )
    kinds = plan_of(frame)
    assert [each for each in kinds if "Join" in each] == ["BroadcastHashJoinExec"] * 3
    assert {each for each in kinds if "Exchange" in each or "Sort" in each} == {"BroadcastExchangeExec"}
    assert [row[ROW] for row in after] == list(range(len(records)))
    by_id = {(each[0].encode(), each[2]): each[1] for each in regions}
    by_number = {b"%d" % each[2]: each[1] for each in regions}
    by_product = {each[:2]: each[2] for each in cents}
    for record, row in zip(records, after, strict=True):
        if record[PAD] is not None or record["value"] == b"x":
            assert not row[KEEP]
            failed = None if record[PAD] is not None else "the condition of the join with s raised an error"
            assert row[ERROR] == failed
            continue
        wanted = (
            by_id.get((record["key"], record["partition"])),
            by_product.get((record["offset"] % 7, record["partition"])),
            by_number.get(record["value"]),
        )
        assert row["key"] == "/".join(each for each in wanted if each is not None).encode()


REFUSED_JOINS: Final = {
    "JOIN regions r ON r.id = topic": "an inner JOIN",
    "RIGHT JOIN regions r ON r.id = topic": "RIGHT OUTER JOIN",
    "FULL JOIN regions r ON r.id = topic": "FULL OUTER JOIN",
    "LEFT SEMI JOIN regions r ON r.id = topic": "LEFT SEMI JOIN",
    "LEFT ANTI JOIN regions r ON r.id = topic": "LEFT ANTI JOIN",
    "CROSS JOIN regions r": "a cross join",
    ", regions r": "an inner JOIN",
    "LEFT JOIN regions USING (id)": "USING",
    "NATURAL LEFT JOIN regions": "a natural join",
    "LEFT JOIN regions r": "ON is missing",
    "LEFT JOIN colours r ON r.id = topic": "there is no lookup colours",
    "LEFT JOIN records r ON r.key = topic": "there is no lookup records",
    "LEFT JOIN (SELECT 1 AS id) r ON r.id = topic": "a subquery can't be joined",
    "LEFT JOIN (VALUES (1)) r ON r.id = topic": "can't be joined",
    "LEFT JOIN regions r ON r.country = (SELECT 'EU')": "LEFT JOIN it",
    "LEFT JOIN regions r ON r.country = topic WHERE r.region IN (SELECT 'EU')": "LEFT JOIN it",
    "LEFT JOIN regions value ON value.id = topic": "the name value",
    "LEFT JOIN regions r ON r.id = topic LEFT JOIN regions r ON r.id = topic": "two lookups",
    "LEFT JOIN regions r ON r.id > topic": "ON has r.column",
    "LEFT JOIN regions r ON r.id = topic OR r.region = topic": "ON has r.column",
    "LEFT JOIN regions r ON upper(r.id) = topic": "one side of =",
    "LEFT JOIN regions r ON r.id = r.region": "one side of =",
    "LEFT JOIN regions r ON id = topic": "one side of =",
    "LEFT JOIN regions r ON key = topic": "one side of =",
    "LEFT JOIN regions r ON r.id = concat(topic, r.region)": "columns of records alone",
    "LEFT JOIN regions r ON r.id = topic LEFT JOIN regions s ON s.id = r.region": "columns of records alone",
    "LEFT JOIN regions r ON r.colour = topic": "r.colour is no column",
    "LEFT JOIN regions r ON r.id = partition": "CAST(… AS STRING)",
    "LEFT JOIN regions r ON r.number = CAST(partition AS DECIMAL(20,2))": "CAST(… AS INT)",
    "LEFT JOIN regions r ON r.id = topic AND r.id = key": "compared",
    "LEFT JOIN regions r ON r.id = uuid()": "uuid",
    "LEFT JOIN regions r ON r.id = colour": "colour",
    "LEFT JOIN regions r ON r.id = topic ORDER BY r.id": "ORDER BY",
}


@pytest.mark.parametrize("join", REFUSED_JOINS)
def test_a_join_that_is_none_with_one_row_of_a_lookup_is_refused(session: Any, join: str) -> None:
    text = f"SELECT * FROM records {join}"
    with pytest.raises(StatementError) as refused:
        looked_up(session, text)
    line = refused.value.line(text)
    assert REFUSED_JOINS[join] in line
    assert "\n" not in line
    for text in (
        "SELECT r.* FROM records LEFT JOIN regions r ON r.id = topic",
        "SELECT r.id FROM records LEFT JOIN regions r ON r.id = topic",
    ):
        with pytest.raises(StatementError):
            looked_up(session, text)
