"""What a worker imports before its REST port answers: packages for rare settings must not cost every start.

Before Spark is launched, and before Spark's driver starts its JVM, still less is imported: nothing takes as long as Spark.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

BUILD: Final = """
import asyncio, sys
import mirror_connect.app.__main__
from mirror_connect.app.distributed import DistributedWorker
from mirror_connect.app.config.worker_config import load_worker_config

async def build():
    DistributedWorker(load_worker_config(sys.argv[1]), lambda _: None)

asyncio.run(build())
print(*sys.modules)
"""
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
PROPERTIES: Final = f"""
bootstrap.servers=127.0.0.1:1
group.id=imports
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
listeners=http://127.0.0.1:0
key.converter={BYTES}
value.converter={BYTES}
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The packages that are loaded in a process that has built a worker without TLS and OAuth."""
    file: Path = tmp_path_factory.mktemp("worker") / "worker.properties"
    file.write_text(PROPERTIES)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_list_of_imports_is_that_of_a_worker(imported: set[str]) -> None:
    assert {"mirror_connect", "confluent_kafka", "fastapi", "uvicorn"} <= imported


@pytest.mark.parametrize(
    "package",
    [
        pytest.param("jks", id="java_key_stores"),
        pytest.param("cryptography", id="certificates"),
        pytest.param("httpx", id="oauth_endpoints"),
        pytest.param("rich", id="consoles"),
        pytest.param("pyspark", id="spark"),
        pytest.param("pyarrow", id="arrow"),
    ],
)
def test_a_plain_worker_starts_without_packages_for(imported: set[str], package: str) -> None:
    assert package not in imported


@pytest.mark.parametrize(
    ("program", "packages"),
    [
        *(
            pytest.param(
                f"mirror_connect.app.{program}",
                {"fastapi", "starlette", "uvicorn", "pydantic", "aiokafka", "confluent_kafka", "yaml"},
                id=program,
            )
            for program in ("__main__", "dedicated.__main__", "mirror_maker.__main__", "standalone.__main__")
        ),
        pytest.param("mirror_connect.spark_jobs.__main__", {"pyspark", "py4j", "asyncio", "ssl"}, id="driver"),
    ],
)
def test_nothing_heavy_is_imported_before_spark_is_launched(program: str, packages: set[str]) -> None:
    code = f"import sys, {program}; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert {name.partition(".")[0] for name in said.split()} & packages == set()
