"""What Spark gets of a task with a statement, and what it must not get. tests/e2e/test_sql.py runs the whole of it."""

from __future__ import annotations

from pyspark.cloudpickle import dumps

from mirror_connect.connectors.mirror.transform_sql import transform_sql_of
from mirror_connect.spark_jobs.compute.arrow_rows import PAD_BYTES
from mirror_connect.spark_jobs.computing_query import BATCH_BYTES, computing_function, feeder_function, function_feeder
from mirror_connect.spark_jobs.internal_http import RunHandle

HANDLE = RunHandle("http://127.0.0.1:1", "run", "the-token", "")
CONFIG = {
    "spark.transform.sql": "SELECT sha2(secrets.SALT, 256) AS value FROM records",
    "spark.transform.secret.SALT": "pepper-and-salt",
}


def test_the_feeder_knows_nothing_but_the_token() -> None:
    pickled = dumps(feeder_function(HANDLE))
    assert b"the-token" in pickled
    assert b"127.0.0.1" not in pickled


def test_no_value_of_a_secret_is_in_the_task() -> None:
    given = transform_sql_of(CONFIG)
    assert given is not None
    # As the driver gets it.
    sql = type(given).from_json(given.to_json())
    pickled = dumps(computing_function(HANDLE, sql, ("value", "secrets"), ("value",)))
    assert b"SALT" in pickled
    assert b"pepper" not in pickled


def test_the_feeder_of_a_function_knows_its_name_and_the_token() -> None:
    pickled = dumps(function_feeder(HANDLE, "masking.customers:mask"))
    assert b"the-token" in pickled
    assert b"masking.customers:mask" in pickled
    assert b"127.0.0.1" not in pickled


def test_a_pad_fills_a_batch_of_spark() -> None:
    assert PAD_BYTES >= BATCH_BYTES
