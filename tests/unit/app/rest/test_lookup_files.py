"""A connector's lookups by REST: a file is named only if the worker may read it and can."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.lookups.lookup_file import file_problem
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS
from tests.fakes.connect_worker import FakeWorker, serving, source_config

LOOKUP = "spark.transform.lookup.r"


@pytest.fixture
def paths(tmp_path: Path) -> LookupPaths:
    (tmp_path / "data").mkdir()
    return LookupPaths((str(tmp_path / "data"),))


@pytest.fixture
async def worker(paths: LookupPaths) -> AsyncIterator[FakeWorker]:
    rules = ConfigRules(lookup_problem=partial(file_problem, paths=paths, may_come=False))
    async with FakeWorker(rules=rules).running() as running:
        yield running


def config(location: str) -> dict[str, str]:
    sql = "SELECT * FROM records LEFT JOIN r ON r.id = topic"
    return {**source_config(), "spark.transform.sql": sql, LOOKUP: location, f"{LOOKUP}.schema": "id STRING"}


async def told(client: httpx.AsyncClient, location: str) -> str | None:
    """The error of the lookup's setting, in both answers; None: the connector is taken."""
    validated = await client.put(
        "/connector-plugins/MirrorSource/config/validate", json={**config(location), "name": "a"}
    )
    errors = {each["value"]["name"]: each["value"]["errors"] for each in validated.json()["configs"]}
    assert validated.json()["error_count"] == len(errors[LOOKUP])
    answer = await client.put("/connectors/a/config", json=config(location))
    if not errors[LOOKUP]:
        assert answer.status_code == 201
        return None
    [line] = errors[LOOKUP]
    assert answer.status_code == 400
    assert line in answer.json()["message"]
    return str(line)


async def test_a_file_where_the_worker_may_not_read_is_refused_with_its_setting_and_what_to_set(
    client: httpx.AsyncClient, worker: FakeWorker, tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("id\n")
    os.symlink(tmp_path / "secret.csv", tmp_path / "data" / "link.csv")
    given = f"{ALLOWED_PATHS} has {tmp_path}/data. Add the file's directory there"
    for path in (f"{tmp_path}/secret.csv", f"{tmp_path}/data/../secret.csv", f"{tmp_path}/none.csv"):
        assert await told(client, path) == (
            f"Invalid value {path} for configuration {LOOKUP}: the worker's file must allow it: {given}"
        )
    assert (await told(client, f"{tmp_path}/data/link.csv") or "").endswith(given)
    assert worker.written() == []


async def test_a_file_that_is_missing_is_told_before_a_task_waits_for_it(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "data" / "r.csv"
    assert await told(client, str(file)) == (
        f"Invalid value {file} for configuration {LOOKUP}: it can't be read: No such file or directory"
    )
    file.write_text("id\n")
    assert await told(client, str(file)) is None


async def test_topics_need_no_directory(client: httpx.AsyncClient) -> None:
    assert await told(client, "source.customers") is None


async def test_a_worker_without_the_setting_reads_none(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("id\n")
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        answer = await client.put("/connectors/a/config", json=config(f"{tmp_path}/r.csv"))
    assert answer.status_code == 400
    assert f"{ALLOWED_PATHS} is not set" in answer.json()["message"]
