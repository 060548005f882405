"""What is no step of one record is refused with its place, and the line says what to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError

from mirror_connect.connectors.mirror.sql_limits import MOST_CASES, MOST_LAMBDAS, MOST_NESTED, too_much_of_a_statement
from mirror_connect.spark_jobs.compute.parsed_expressions import MOST_LEVELS
from mirror_connect.spark_jobs.compute.records_table import VALUE
from mirror_connect.spark_jobs.compute.statement import planned
from mirror_connect.spark_jobs.compute.statement_error import StatementError, spark_errors
from tests.spark.statement.statements import SCHEMA, looked_up, statement

pytestmark = pytest.mark.spark

REFUSED: Final = {
    "INSERT INTO x SELECT * FROM records": None,
    "SELECT key FROM records; SELECT 1": None,
    "SELECT key,\n FROM records": None,
    "SELECT 1 AS key": None,
    "SELECT * FROM others": 14,
    "SELECT * FROM a.records": 14,
    "WITH x AS (SELECT * FROM records) SELECT * FROM x": None,
    "SELECT * FROM (SELECT * FROM records)": None,
    "SELECT * FROM records ORDER BY offset": None,
    "SELECT * FROM records LIMIT 5": None,
    "SELECT DISTINCT * FROM records": None,
    "SELECT * FROM records UNION ALL SELECT * FROM records": None,
    "SELECT * FROM records a JOIN records b ON a.key = b.key": None,
    "SELECT * FROM records LEFT JOIN regions r ON r.id = key": 32,
    "SELECT * FROM records TABLESAMPLE (10 PERCENT)": None,
    "SELECT * FROM records LATERAL VIEW explode(headers) h AS x": None,
    "SELECT topic FROM records GROUP BY topic": None,
    "SELECT count(*) AS key FROM records": None,
    "SELECT max(key) AS key FROM records": 7,
    "SELECT explode(headers) AS headers FROM records": 7,
    "SELECT row_number() OVER (ORDER BY key) AS key FROM records": 7,
    "SELECT * FROM records WHERE key IN (SELECT 1)": 32,
    "SELECT * FROM records WHERE key IN (SELECT 'EU')": 36,
    "SELECT * FROM records WHERE EXISTS (SELECT 1 FROM records)": 36,
    "SELECT * FROM records WHERE NOT EXISTS (SELECT 1)": 40,
    "SELECT * FROM records WHERE offset > (SELECT 1)": 37,
    "SELECT (SELECT 1) AS key FROM records": 7,
    "SELECT upper(topic) FROM records": 7,
    "SELECT upper(topic) AS topic FROM records": 7,
    "SELECT 1 AS offset FROM records": 7,
    "SELECT 'a' AS colour FROM records": 7,
    "SELECT 'a' AS key, 'b' AS key FROM records": 19,
    "SELECT key, 'b' AS key FROM records": 12,
    "SELECT * EXCEPT (key) FROM records": 7,
    "SELECT struct(*) AS value FROM records": 14,
    "SELECT 1 AS key FROM records": 7,
    "SELECT value AS timestamp FROM records": 7,
    "SELECT array(1) AS headers FROM records": 7,
    "SELECT * FROM records WHERE offset": 28,
    "SELECT colour AS key FROM records": 7,
    "SELECT __row AS key FROM records": 7,
    "SELECT secrets.salt AS key FROM records": 7,
    "SELECT hmac(key, 'a') AS key FROM records": 7,
    "SELECT rand() AS key FROM records": 7,
    "SELECT concat(key,\n  uuid()) AS key FROM records": 21,
    "SELECT now() AS timestamp FROM records": 7,
    "SELECT CAST(unix_timestamp() AS STRING) AS key FROM records": 12,
    "SELECT CAST(current_date AS STRING) AS key FROM records": 12,
    "SELECT java_method('java.lang.System', 'exit', 1) AS key FROM records": 7,
    "SELECT reflect('java.util.UUID', 'randomUUID') AS key FROM records": 7,
    "SELECT monotonically_increasing_id() AS key FROM records": 7,
    "SELECT input_file_name() AS key FROM records": 7,
    "SELECT aes_encrypt(key, key) AS key FROM records": 7,
    "SELECT from_xml(CAST(value AS STRING), 'a STRING') AS value FROM records": 7,
    "SELECT xpath_string(CAST(value AS STRING), '/r') AS key FROM records": 7,
    "SELECT * FROM records WHERE system.builtin.XPath_Boolean(CAST(value AS STRING), 'a/b')": 28,
    "SELECT from_avro(value, '{}') AS value FROM records": 7,
    "SELECT from_protobuf(value, 'M', '/etc/passwd') AS value FROM records": 7,
    "SELECT from_json(topic, schema_of_json(concat('{\"a\":\"', repeat('x', 20), '\"}'))) AS value FROM records": 39,
    "SELECT from_csv(topic, repeat('a', 9)) AS value FROM records": 23,
    "SELECT to_json(headers, map('a', repeat('x', 9))) AS value FROM records": 33,
    "SELECT to_char(1, if(levenshtein(repeat('a', 200000), repeat('b', 200000)) > 0, '99', '9')) AS key FROM records": 18,
    "SELECT CAST(to_number('1', repeat('9', 3)) AS STRING) AS key FROM records": 27,
    "SELECT to_binary('ab', repeat('hex', 1)) AS key FROM records": 23,
    "SELECT CAST(date_part(lower('YEAR'), timestamp) AS STRING) AS key FROM records": 22,
    "SELECT CAST(round(offset, length('ab')) AS STRING) AS key FROM records": 26,
    "SELECT array('a')[length('a')] AS key FROM records": 18,
    "SELECT TIMESTAMP 'now' AS timestamp FROM records": 7,
    "SELECT TIMESTAMP ' Now UTC' AS timestamp FROM records": 7,
    "SELECT * FROM records WHERE timestamp > DATE 'yesterday'": 40,
    "SELECT CAST('now' AS TIMESTAMP) AS timestamp FROM records": 7,
    "SELECT try_cast('today' AS DATE)::TIMESTAMP AS timestamp FROM records": None,
    "SELECT to_timestamp('tomorrow') AS timestamp FROM records": 7,
    "SELECT CAST(concat('n', 'ow') AS TIMESTAMP) AS timestamp FROM records": 7,
    "SELECT * FROM records WHERE timestamp > 'now'": None,
    "SELECT current_user() AS key FROM records": 7,
    "SELECT current_user AS key FROM records": 7,
    "SELECT upper(current_catalog()) AS key FROM records": 13,
    "SELECT version() AS key FROM records": 7,
    "SELECT current_path() AS key FROM records": 7,
    "SELECT IDENTIFIER('key') AS key FROM records": 7,
    "SELECT :x AS key FROM records": 7,
    "SELECT CAST(offset AS DECIMAL(50, 2)) AS key FROM records": None,
}


# What would be wrong with another name, column or table, too; and the word of the reason.
OF_MANY_RECORDS: Final = {
    "SELECT count(*) FROM records": "count is",
    "SELECT topic, COUNT(DISTINCT key) FROM records": "COUNT is",
    "SELECT sum(value.amount) AS total FROM records": "sum is",
    "SELECT max(nothing) AS value FROM others": "max is",
    "SELECT upper(CAST(collect_list(key) AS STRING)) FROM records": "collect_list is",
    "SELECT system.builtin.min(offset) FROM records": "min is",
    "SELECT * FROM records WHERE offset = max(offset)": "max is",
    "SELECT * FROM records r LEFT JOIN others o ON o.id = max(r.key)": "max is",
    "SELECT explode(headers) FROM records": "explode is",
    "SELECT inline(headers) AS (a, b) FROM records": "inline is",
    "SELECT row_number() OVER (ORDER BY offset) FROM records": "a window",
    "SELECT lag(key) AS before FROM records": "lag is",
    "SELECT sum(offset) OVER (PARTITION BY key) AS total FROM others": "a window",
    "SELECT (SELECT max(key) FROM records) FROM records": "a subquery is not taken: write the values",
    "SELECT key IN (SELECT 1) AS known FROM others": "a subquery",
    "SELECT rand() FROM records": "rand",
    "SELECT now() AS seen FROM records": "processed_at",
    "SELECT reflect('java.util.UUID', 'randomUUID') FROM records": "outside",
    "SELECT upper(nothing) FROM records": "nothing",
    "SELECT nothing FROM records": "nothing",
    "SELECT topic, count(*) FROM records GROUP BY topic": "GROUP BY",
    "SELECT count(*) FROM records HAVING count(*) > 1": "HAVING",
}


@pytest.mark.parametrize("text", OF_MANY_RECORDS)
def test_a_name_is_asked_for_only_where_it_helps(session: Any, text: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text)
    line = refused.value.line(text)
    assert OF_MANY_RECORDS[text] in line
    assert "has no name" not in line
    assert "no column seen" not in line


def test_xml_reads_no_file_and_asks_no_host_while_a_statement_is_checked(session: Any, tmp_path: Path) -> None:
    """Spark computes constants when it analyses them. The file is a pipe: whoever opened it would wait for ever."""
    pipe = tmp_path / "schema.xsd"
    os.mkfifo(pipe)
    options = f"map('mode', 'FAILFAST', 'rowValidationXSDPath', '{pipe}')"
    with pytest.raises(StatementError) as refused:
        statement(
            session,
            f"SELECT from_xml('<r><a>1</a></r>', schema_of_xml('<r><a>1</a></r>', {options})) AS value FROM records",
        )
    assert "from_xml is not taken: it can read files and ask other hosts" in refused.value.problem
    # Were such a function forgotten, the JVM would refuse what a record names.
    dtd = tmp_path / "records.dtd"
    dtd.write_text("<!ENTITY g 'of the file'>", "utf-8")
    text = f"<!DOCTYPE r SYSTEM '{dtd.as_uri()}'><r>&g;</r>"
    path = session._jvm.org.apache.spark.sql.catalyst.expressions.xml.UDFXPathUtil()
    with pytest.raises(Py4JJavaError, match="access is not allowed"):
        path.evalString(text, "/r")


def test_options_and_schemas_of_functions_are_literals(session: Any) -> None:
    for text in (
        "SELECT from_json(CAST(value AS STRING), 'a INT', map('mode', 'FAILFAST')) AS value FROM records",
        "SELECT from_json(CAST(value AS STRING), schema_of_json('{\"a\": 1}')) AS value FROM records",
        "SELECT to_json(headers, map('ignoreNullFields', 'false')) AS value FROM records",
        "SELECT to_csv(named_struct('a', topic)) AS value FROM records",
    ):
        assert statement(session, text).changes == (VALUE,)


def test_what_spark_computes_when_it_reads_a_statement_may_be_a_literal(session: Any) -> None:
    for text in (
        "SELECT to_char(offset, '999') AS key FROM records",
        "SELECT CAST(round(offset, -1) AS STRING) AS key FROM records",
        "SELECT CAST(extract(YEAR FROM timestamp) AS STRING) AS key FROM records",
        "SELECT array(topic, 'a')[CAST(pmod(offset, 2) AS INT)] AS key FROM records",
        "SELECT TIMESTAMP '2020-01-31 12:00:00' AS timestamp FROM records WHERE timestamp > DATE 'epoch'",
        "SELECT CAST('2020-01-31' AS TIMESTAMP) AS timestamp FROM records WHERE timestamp > '2020-01-31'",
        "SELECT 'now' AS key FROM records WHERE topic <> 'today'",
    ):
        assert statement(session, text).changes


# The text, and what the line says.
ADVICE: Final = {
    "SELECT * FROM records WHERE": "WHERE has no condition",
    "SELECT * FROM records GROUP": "GROUP BY is not taken",
    "SELECT value FORM records": "FROM records is missing",
    "SELECT value.id, value.country FROM records": "named_struct",
    "SELECT value.id AS value, value.country AS value FROM records": "named_struct",
    "SELECT sha2(secrets.sugar, 256) AS key FROM records": "set spark.transform.secret.sugar",
    "SELECT upper(r.secrets.sugar) AS key FROM records r": "set spark.transform.secret.sugar",
    "SELECT * FROM records WHERE key.id = 1": "set spark.transform.key.schema",
    "SELECT * FROM records WHERE records.key.id = 1": "set spark.transform.key.schema",
    "SELECT * FROM records WHERE country = 'EU'": "did you mean value.country?",
    "SELECT * FROM records r WHERE upper(r.Country) = 'EU'": "did you mean value.Country?",
}


@pytest.mark.parametrize("secrets", [(), ("salt",)], ids=["no_secret", "another_secret"])
@pytest.mark.parametrize("text", ADVICE)
def test_a_line_says_what_to_write_or_to_set(session: Any, text: str, secrets: tuple[str, ...]) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text, SCHEMA, secrets)
    assert ADVICE[text] in refused.value.line(text)


def test_names_with_and_without_the_tables_name_are_taken(session: Any) -> None:
    found = statement(
        session,
        """SELECT sha2(concat(secrets.Salt, r.secrets.salt, r.value.email), 256) AS key,
                  filter(r.headers, country -> country.key <> 'id') AS headers
           FROM records r WHERE r.value.country = 'EU' AND `value`.`id` > 1""",
        SCHEMA,
        ["salt"],
    )
    assert found.columns == ("value", "headers", "secrets")


@pytest.mark.parametrize("text", REFUSED, ids=[each.replace("\n", " ") for each in REFUSED])
def test_what_is_no_step_of_one_record_is_refused_with_its_place(session: Any, text: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text)
    line = refused.value.line(text)
    assert "\n" not in line
    assert "JVM" not in line
    if REFUSED[text] is not None:
        assert refused.value.index == REFUSED[text], line


@pytest.mark.parametrize("operator", [" || ", " + "])
def test_a_chain_of_too_many_operators_is_refused_with_its_place(session: Any, operator: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, f"SELECT {operator.join(['offset'] * (MOST_LEVELS + 2))} AS key FROM records")
    assert refused.value.problem.startswith(f"it has more than {MOST_LEVELS} expressions within each other")
    assert refused.value.index == len("SELECT ")


def test_what_is_as_large_and_deep_as_it_may_be_is_read_and_planned(session: Any) -> None:
    cases = f"{'CASE WHEN true THEN ' * MOST_CASES}topic{' END' * MOST_CASES}"
    functions = f"{'upper(' * MOST_NESTED}topic{')' * MOST_NESTED}"
    lambdas = f"transform(headers, {'x -> ' * MOST_LAMBDAS}1)"
    for text in (
        f"SELECT {cases} AS key FROM records",
        f"SELECT {functions} AS key FROM records",
        f"SELECT {' || '.join(['topic'] * (MOST_LEVELS - 1))} AS key FROM records",
        f"SELECT * FROM records WHERE topic IN ({','.join([repr('a')] * 2_000)})",
    ):
        assert too_much_of_a_statement(text) is None
        assert planned(session, statement(session, text)) is not None
    text = f"SELECT {lambdas} AS value FROM records"
    assert too_much_of_a_statement(text) is None
    with pytest.raises(StatementError):
        statement(session, text)


def test_constants_are_computed_when_a_config_is_checked_and_not_when_a_task_starts(session: Any) -> None:
    """All tasks start one after the other. This constant needs more memory than there is, where others take for ever."""
    found = looked_up(session, "SELECT repeat('a', 2000000000) AS key FROM records LEFT JOIN regions r ON r.id = topic")
    with pytest.raises(Py4JJavaError, match="OutOfMemoryError"):
        planned(session, found)


def test_a_schema_that_is_none_is_refused_by_its_setting(session: Any) -> None:
    for schema in ("id BIGINTEGER", "", "id", "id INT, ID STRING"):
        with pytest.raises(StatementError) as refused:
            statement(session, "SELECT value FROM records", schema)
        assert refused.value.setting == "spark.transform.value.schema"


def test_a_stack_of_the_jvm_that_is_too_small_is_told_with_what_to_do(session: Any) -> None:
    told = r"more of its stack than there is \(java\.lang\.StackOverflowError\): write it with fewer levels"
    with pytest.raises(StatementError, match=told), spark_errors("SELECT key FROM records"):
        session._jvm.java.util.regex.Pattern.matches("(x|y)*", "x" * 200_000)
