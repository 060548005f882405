"""Which statements Spark's parser finds to be queries: all of SELECT, and nothing that writes or reads anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mirror_connect.query.errors import QueryError
from mirror_connect.query.parsed_plan import parsed_plan
from mirror_connect.query.sql_errors import explained
from mirror_connect.query.statement import place_of, statement_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark once more: `make soak` runs them.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM source.t WHERE key IN (SELECT key FROM target.`t.x-y`) LIMIT 5 OFFSET 2",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
        "SELECT a.*, x FROM source.t a LATERAL VIEW explode(headers) AS x",
        "SELECT *, row_number() OVER w FROM source.t WINDOW w AS (PARTITION BY key ORDER BY offset)",
        "SELECT * FROM (SELECT partition, offset FROM source.t) PIVOT (count(offset) FOR partition IN (0, 1))",
        "SELECT partition, count(*) FROM source.t GROUP BY GROUPING SETS ((partition), ()) HAVING count(*) > 1",
        "FROM source.t |> WHERE offset > 5 |> SELECT key",
        "SELECT /*+ BROADCAST(b) */ * FROM source.t a LEFT ANTI JOIN target.t b USING (key)",
        "SELECT * FROM source.t TABLESAMPLE (10 PERCENT) AS s, LATERAL (SELECT s.key)",
        "SELECT * FROM range(5) UNION SELECT 1 EXCEPT VALUES (2) INTERSECT TABLE positions",
        "SELECT * FROM status TABLESAMPLE (5 ROWS) ORDER BY ALL",
        "SELECT '😀😀', `😀`.key FROM source.`😀` /* 😀 */ JOIN target.t USING (key)",
    ],
)
def test_all_of_select_is_taken(spark: SparkSession, text: str) -> None:
    sql = statement_of(text, parsed_plan(spark, text)).sql
    assert "source." not in sql
    assert parsed_plan(spark, sql).plans


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("INSERT INTO source.t VALUES (1)", "InsertIntoStatement (line 1, column 1)"),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' USING csv SELECT 1", "InsertIntoDir"),
        ("FROM source.t INSERT INTO a SELECT key INSERT INTO b SELECT value", "InsertIntoStatement"),
        ("CREATE TABLE a AS SELECT 1", "CreateTableAsSelect"),
        ("CREATE TEMPORARY VIEW a AS SELECT 1", "CreateView"),
        ("CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'", "CreateFunction"),
        ("DROP TABLE source.t", "DropTable"),
        ("ADD JAR '/tmp/x.jar'", "AddJarsCommand"),
        ("SET a=1", "SetCommand"),
        ("USE source", "SetCatalogAndNamespace"),
        ("EXPLAIN SELECT 1", "ExplainCommand"),
        ("SHOW TABLES", "ShowTables"),
        ("CACHE TABLE a AS SELECT 1", "CacheTableAsSelect"),
        ("EXECUTE IMMEDIATE 'DROP TABLE a'", "UnresolvedExecuteImmediate"),
        ("SELECT TRANSFORM (key) USING 'cat' AS k FROM source.t", "ScriptTransformation"),
        ("SELECT * FROM IDENTIFIER('source.t')", "write its name itself, without comments or IDENTIFIER"),
        ("SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')", "IDENTIFIER is not taken"),
        ("SELECT reflect('java.lang.System', 'getenv')", "function reflect is not taken (line 1, column 8)"),
        ("SELECT 1 WHERE EXISTS (SELECT java_method('a', 'b'))", "function java_method is not taken"),
        ("SELECT try_reflect('a', 'b') FROM source.t", "function try_reflect is not taken"),
        ("SELECT * FROM json.`/etc/passwd`", "there is no table json./etc/passwd (line 1, column 15)"),
        ("SELECT * FROM parquet.`file:///etc/passwd`", "there is no table parquet.file:///etc/passwd"),
        ("SELECT * FROM `/etc/passwd`", "there is no table /etc/passwd"),
        ("SELECT * FROM source.t WITH ('header' = 'true')", "a table has no options"),
        ("SELECT * FROM read_files('/etc/passwd')", "table function read_files is not taken"),
        ("SELECT from_protobuf(value, 'm', '/etc/passwd') FROM source.t", "function from_protobuf is not taken"),
        ("CREATE TABLE a USING csv LOCATION 'file:///tmp/x'", "CreateTable"),
        ("COPY INTO a FROM '/etc/passwd'", "PARSE_SYNTAX_ERROR"),
        ("LOAD DATA LOCAL INPATH '/etc/passwd' INTO TABLE a", "LoadData"),
        ("DECLARE VARIABLE a INT", "CreateVariable"),
        ("MERGE INTO source.t USING target.t ON true WHEN MATCHED THEN DELETE", "MergeIntoTable"),
        ("DELETE FROM source.t", "DeleteFromTable"),
        ("SELECT * FROM STREAM source.t", "NamedStreamingRelation"),
        ("SELECT * FROM source.t VERSION AS OF 1", "RelationTimeTravel"),
        ("SELECT * FROM python_worker_logs()", "table function python_worker_logs is not taken"),
        ("BEGIN SELECT 1; END", "CompoundBody"),
    ],
)
def test_whatever_is_no_select_of_these_tables_is_refused(spark: SparkSession, text: str, line: str) -> None:
    with pytest.raises(QueryError) as refused, explained(lambda index: place_of(text, index), lambda: None):
        statement_of(text, parsed_plan(spark, text))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
