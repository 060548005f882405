"""The Spark session of a file about statements."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_connect.spark_jobs.compute.statement import statement_session
from mirror_connect.spark_jobs.session import open_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch")))
        opened = open_session(
            {
                "spark.master": "local[1]",
                "spark.sql.codegen.wholeStage": "true",
                "spark.sql.codegen.factoryMode": "FALLBACK",
            }
        )
        gateway = opened.sparkContext._gateway
        try:
            yield statement_session(opened)
        finally:
            opened.stop()
            with contextlib.suppress(OSError):
                gateway.proc.stdin.close()
            gateway.proc.wait(30)


@pytest.fixture(scope="module")
def interpreted(session: Any) -> Any:
    """The same without generated code, as it takes longer to compile than such a test."""
    new = statement_session(session)
    new.conf.set("spark.sql.codegen.wholeStage", "false")
    new.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return new
