"""The Spark session of a file about statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirror_connect.spark_jobs.compute.statement import statement_session
from tests.spark.sessions import running_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = {
        "spark.master": "local[1]",
        # As in the application of statements.
        "spark.driver.extraJavaOptions": "-Xss4m",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
    }
    with running_session(settings, tmp_path_factory.mktemp("scratch")) as opened:
        yield statement_session(opened)


@pytest.fixture(scope="module")
def interpreted(session: Any) -> Any:
    """The same without generated code, as it takes longer to compile than such a test."""
    new = statement_session(session)
    new.conf.set("spark.sql.codegen.wholeStage", "false")
    new.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return new
