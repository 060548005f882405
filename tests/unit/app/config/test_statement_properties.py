"""Which properties each Spark application of a worker gets."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.statement_properties import DEFAULT_MEMORY, properties_of
from mirror_connect.app.config.worker_config import worker_config

GIVEN = {"spark.master": "local[4,4]", "spark.driver.memory": "600m", "spark.transform.sql.a": "b"}


def test_properties_for_statements_are_those_of_their_application_alone() -> None:
    assert properties_of(GIVEN, statements=False) == {"spark.master": "local[4,4]", "spark.driver.memory": "600m"}
    assert properties_of(GIVEN, statements=True) == {
        "spark.master": "local[4,4]",
        "spark.driver.memory": DEFAULT_MEMORY,
        "spark.sql.a": "b",
    }


def test_the_memory_for_statements_is_a_setting() -> None:
    given = GIVEN | {"spark.transform.driver.memory": "3g"}
    assert properties_of(given, statements=True)["spark.driver.memory"] == "3g"
    assert properties_of(given, statements=False)["spark.driver.memory"] == "600m"


@pytest.mark.parametrize("statements", [True, False])
def test_on_a_cluster_there_is_one_application(statements: bool) -> None:
    given = {"spark.master": "spark://m:7077", "spark.transform.driver.memory": "3g"}
    assert properties_of(given, statements=statements) == {"spark.master": "spark://m:7077"}


def test_what_a_connector_has_is_not_handed_to_spark() -> None:
    names = (
        "spark.transform.sql",
        "spark.transform.secret.pepper",
        "spark.transform.lookup.regions",
        "spark.transform.lookup.refresh.interval.seconds",
        "spark.transform.timeout.ms",
        "spark.transform.driver.memory",
        "spark.ui.enabled",
    )
    given = {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
        **dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.converters.ByteArrayConverter"),
        **dict.fromkeys(names, "x"),
    }
    found = worker_config(given, warnings=False).spark
    assert set(found) == {"spark.master", "spark.transform.driver.memory", "spark.ui.enabled"}
