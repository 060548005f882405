"""Reads statements and applies them to records, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.spark_jobs.compute.records_table import ERROR, KEEP, PAD, ROW, VALUE, frame_type
from mirror_connect.spark_jobs.compute.statement import Statement, applied, read_statement

SCHEMA: Final = "id BIGINT, country STRING, email STRING, card STRING"


def statement(session: Any, text: str, value_schema: str | None = None, secrets: Sequence[str] = ()) -> Statement:
    return read_statement(session, TransformSql(text, value_schema, None, tuple(secrets)))


def rows(session: Any, found: Statement, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What becomes of records; a record has only what matters."""
    kinds = frame_type(found.columns, found.sql)
    values = [tuple({ROW: number, **each}.get(name) for name in kinds.names) for number, each in enumerate(records)]
    frame = session.createDataFrame(values, kinds)
    after = applied(found, frame)
    assert after.columns == [ROW, PAD, KEEP, ERROR, *found.changes]
    return [each.asDict() for each in after.collect()]


def changed(session: Any, text: str, value: bytes | None, **others: Any) -> Any:
    """The value of one record after the statement."""
    schema = others.pop("schema", None)
    [row] = rows(session, statement(session, text, schema), [{"value": value, **others}])
    assert (row[KEEP], row[ERROR]) == (True, None)
    return None if row[VALUE] is None else bytes(row[VALUE])


REGIONS: Final = Lookup("regions", "id STRING, region STRING, number INT")


def looked_up(session: Any, text: str, *lookups: Lookup, schema: str | None = None) -> Statement:
    return read_statement(session, TransformSql(text, schema, lookups=lookups or (REGIONS,)))
