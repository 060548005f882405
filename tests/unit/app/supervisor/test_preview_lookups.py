"""Lookups that Spark reads for a preview: with its own token, once, and with the errors of a task's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from mirror_connect.app.lookups.loaded_lookup import BadLookupError, LoadedLookup
from mirror_connect.app.supervisor.preview_lookups import LookupRefused, PreviewLookups, PreviewRun
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.lookups import Lookup

REGIONS = Lookup("regions", "id STRING, n INT", "/etc/regions.csv")
CUSTOMERS = Lookup("customers", "id STRING, n INT", "source.customers")
CONFIG = {"name": "c", "source.cluster.bootstrap.servers": "a:1", "source.cluster.sasl.jaas.config": "geheim-geheim"}


class Reader:
    """Rows, or an error; and with which properties they were read."""

    def __init__(self, *rows: tuple[str, int], error: Exception | None = None) -> None:
        self.rows, self.error = rows, error
        self.clients: list[Mapping[str, str]] = []

    def __call__(self, lookup: Lookup, client: Mapping[str, str], _: str, known: object) -> LoadedLookup | None:
        self.clients.append(client)
        assert known is None
        if self.error is not None:
            raise self.error
        return LoadedLookup(pa.table({"id": [each[0] for each in self.rows], "n": [each[1] for each in self.rows]}), 1)


async def rows(lookups: PreviewLookups, run: PreviewRun, name: str, *keys: str) -> list[tuple[str, int]] | None:
    content = await lookups.rows(run, name, keys or ("id",))
    if content is None:
        return None
    with pa.ipc.open_stream(content) as stream:
        return [(each["id"], each["n"]) for each in stream.read_all().to_pylist()]


async def test_a_preview_reads_with_the_connectors_login_and_finds_the_rows_that_a_task_finds() -> None:
    reader = Reader(("DE", 1), ("DE", 2), ("FR", 3))
    lookups = PreviewLookups(reader)
    with lookups.opened([REGIONS, CUSTOMERS], CONFIG) as run:
        assert lookups.find(run.run_id) is run
        # The newest record of a topic counts.
        assert await rows(lookups, run, "customers") == [("DE", 2), ("FR", 3)]
        assert reader.clients[0]["bootstrap.servers"] == "a:1"
        assert await rows(lookups, run, "regions", "id", "n") == [("DE", 1), ("DE", 2), ("FR", 3)]
        assert reader.clients[1] == {}
        assert not run.failed.done()
        assert "geheim" not in repr(run)
        assert run.token not in repr(run)
    assert lookups.find(run.run_id) is None


@pytest.mark.parametrize(
    ("error", "kind", "line"),
    [
        (BadLookupError("it has more than 32 MiB"), LookupRefused, "it has more than 32 MiB"),
        (ClusterUnreachable("no broker answers"), ClusterUnreachable, "no broker answers"),
        (NotAuthorized("grant READ"), NotAuthorized, "grant READ"),
        (ValueError("geheim-geheim"), LookupRefused, "ValueError while it was read"),
    ],
)
async def test_a_lookup_that_can_not_be_read_ends_its_preview_with_a_line(
    error: Exception, kind: type[Exception], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    lookups = PreviewLookups(Reader(error=error))
    with caplog.at_level(logging.DEBUG), lookups.opened([REGIONS], CONFIG) as run:
        # Asked twice: the first reason stays.
        assert [await rows(lookups, run, "regions") for _ in range(2)] == [None, None]
        with pytest.raises(kind, match=rf"^Lookup regions \(spark\.transform\.lookup\.regions=.*\): {line}"):
            run.failed.result()
    assert "geheim-geheim" not in caplog.text


async def test_two_rows_with_one_key_are_refused_in_a_file_and_shown_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lookups = PreviewLookups(Reader(("DE", 1), ("DE", 2)))
    with caplog.at_level(logging.DEBUG), lookups.opened([REGIONS], CONFIG) as run:
        assert await rows(lookups, run, "regions") is None
        with pytest.raises(LookupRefused, match="2 rows have the same id"):
            run.failed.result()
    assert "DE" not in caplog.text


@pytest.mark.parametrize(("name", "key"), [("others", "id"), ("regions", "colour")])
async def test_spark_gets_nothing_that_the_config_does_not_name(name: str, key: str) -> None:
    lookups = PreviewLookups(Reader())
    with lookups.opened([REGIONS], CONFIG) as run:
        assert await rows(lookups, run, name, key) is None
        with pytest.raises(ConfigError, match=name):
            run.failed.result()


async def test_what_fails_after_the_end_of_a_preview_is_nobodys() -> None:
    lookups = PreviewLookups(Reader(error=BadLookupError("bad")))
    with lookups.opened([REGIONS], CONFIG) as run:
        pass
    found: Any = await rows(lookups, run, "regions")
    assert (found, run.failed.cancelled()) == (None, True)
