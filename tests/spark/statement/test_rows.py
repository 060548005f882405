"""One row for each record, in order, whatever the statement says; also through Python's processes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin, table_type
from mirror_connect.spark_jobs.compute.records_table import ERROR, KEEP, PAD, ROW, VALUE, rows_type
from mirror_connect.spark_jobs.compute.statement import SESSION, applied
from mirror_connect.spark_jobs.computing_query import SETTINGS
from mirror_connect.spark_jobs.executor_errors import statement_line
from mirror_connect.spark_jobs.query import map_in_arrow
from tests.spark.statement.statements import SCHEMA, looked_up, rows, statement

pytestmark = pytest.mark.spark


def test_a_record_that_overflows_the_stack_ends_its_query_and_not_the_jvm(session: Any) -> None:
    found = statement(session, "SELECT * FROM records WHERE CAST(value AS STRING) rlike '^(a|b)*$'")
    numbers = session.range(0, 1, 1, 1)
    # No constant: Spark would compute it in the driver.
    frame = numbers.selectExpr(
        "id AS __row",
        "CAST(NULL AS BINARY) AS __pad",
        "CAST(repeat('ab', CAST(id + 2000000 AS INT)) AS BINARY) AS value",
    )
    with pytest.raises(Py4JJavaError) as failed:
        # As a task's rows: all of it, and no row of it comes to the driver.
        applied(found, frame)._jdf.write().format("noop").mode("overwrite").save()
    line = statement_line(str(failed.value))
    assert line is not None
    assert line.startswith("Spark has not enough stack to apply the statement to a record (StackOverflowError)")
    [row] = rows(session, found, [{"value": b"abab"}])
    assert row[KEEP]


def some_record(chance: random.Random) -> dict[str, Any]:
    number = chance.randrange(100)
    return {
        "partition": chance.choice((None, *range(-2, 3))),
        "key": chance.choice((None, b"", b"x", b"\xff", str(number).encode())),
        "value": chance.choice((None, b"", b"{", b'{"id": "a"}', b'{"id": %d}' % (number - 50))),
        PAD: chance.choice((None, None, None, b"", b"pad")),
    }


def test_each_row_is_there_once_and_in_order_and_what_is_not_kept_is_null(session: Any) -> None:
    chance = random.Random(18)
    records = [some_record(chance) for _ in range(3000)]
    for each in (
        statement(
            session,
            "SELECT CAST(CAST(CAST(key AS STRING) AS INT) AS STRING) AS key FROM records WHERE 6 % partition = 0",
        ),
        statement(
            session, "SELECT named_struct('n', value.id + 1) AS value FROM records WHERE value.id % 2 = 0", SCHEMA
        ),
    ):
        after = rows(session, each, records)
        assert [row[ROW] for row in after] == list(range(len(records)))
        assert [row[PAD] for row in after] == [record[PAD] for record in records]
        kept = [row for row in after if row[KEEP]]
        assert 0 < len(kept) < len(records)
        for row in after:
            if not row[KEEP]:
                assert [row[name] for name in each.changes] == [None]
            if row[PAD] is not None:
                assert (row[KEEP], row[ERROR]) == (False, None)
            assert not (row[KEEP] and row[ERROR])
        if each.changes == ("value",):
            assert all(json.loads(row[VALUE])["n"] % 2 for row in kept)
        else:
            assert [row["key"] for row in kept] == [records[row[ROW]]["key"] or None for row in kept]


@pytest.mark.parametrize("joins", [False, True], ids=["alone", "with_a_lookup"])
def test_one_flush_brings_a_single_record_through_both_python_processes(
    joins: bool, session: Any, tmp_path: Path
) -> None:
    """The feeder sends a record and the two rows of a flush, and nothing more before the task has the record.

    Spark hands on no batch that is not full. If a release of it needs more than these two rows, the record never comes.
    """
    own = session.newSession()
    for name, value in (SESSION | SETTINGS).items():
        own.conf.set(name, value)
    plain = "SELECT upper(CAST(value AS STRING)) AS value FROM records WHERE value <> 'no'"
    joined = "SELECT r.region AS value FROM records LEFT JOIN regions r ON r.id = CAST(value AS STRING)"
    found = looked_up(own, joined) if joins else statement(own, plain)
    columns, place, rounds = found.columns, str(tmp_path), 3

    def feeder(clock: Iterator[Any]) -> Iterator[Any]:
        import itertools  # noqa: PLC0415 — this runs in a process of Spark
        import time  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        from mirror_connect.spark_jobs.compute.arrow_rows import Rows  # noqa: PLC0415

        for _ in clock:
            made = Rows(columns)
            yield made.samples
            for number in range(rounds):
                row = {"__row": [number], "value": [b"yes"], "__pad": [None]}
                yield pa.RecordBatch.from_pydict(row, schema=made.schema)
                yield made.pads
                for waited in itertools.count():
                    if Path(place, str(number)).exists():
                        break
                    if waited > 6000:
                        raise TimeoutError(f"record {number} did not come")
                    time.sleep(0.01)

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path  # noqa: PLC0415

        for batch in batches:
            for row in batch.to_pylist():
                if row["__row"] is not None:
                    Path(place, str(row["__row"])).write_text(f"{row['__keep']} {row['value']}")
        yield from ()

    def lookup(clock: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415

        for _ in clock:
            number = pa.array([1], pa.int32())
            yield pa.RecordBatch.from_arrays([pa.array(["yes"]), pa.array(["YES"]), number], ["id", "region", "number"])

    def table(join: LookupJoin) -> Any:
        return map_in_arrow(own.range(0, 1, 1, 1), lookup, table_type(found.sql, join))

    fed = map_in_arrow(own.range(0, 1, 1, 1), feeder, rows_type(found.columns, found.sql))
    map_in_arrow(applied(found, fed, table), task).write.format("noop").mode("overwrite").save()
    assert [Path(place, str(number)).read_text() for number in range(rounds)] == ["True b'YES'"] * rounds
