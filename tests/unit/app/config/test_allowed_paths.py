"""Which paths `allowed.paths` permits, without a look at any file; what a worker's own properties say of lookups."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths, files_of_lookups
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
MINIMAL = {
    "bootstrap.servers": "b:1",
    "group.id": "g",
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    **dict.fromkeys(("key.converter", "value.converter"), BYTES),
}


@pytest.mark.parametrize(
    ("path", "opened"),
    [
        ("/data/r.csv", "/data/r.csv"),
        ("/data/deep/r.csv", "/data/deep/r.csv"),
        ("/data/deep/../r.csv", "/data/r.csv"),
        ("/other/../data/r.csv", "/data/r.csv"),
        ("/data//./r.csv", "/data/r.csv"),
        ("/etc/one.csv", "/etc/one.csv"),
        ("/database/r.csv", None),
        ("/data.csv", None),
        ("/data/../etc/r.csv", None),
        ("/data/deep/../../r.csv", None),
        ("//data/r.csv", None),
        ("data/r.csv", None),
        ("/etc/one.csv.csv", None),
        ("/r.csv", None),
    ],
)
def test_a_path_is_permitted_within_a_directory_and_not_beside_it(path: str, opened: str | None) -> None:
    assert LookupPaths(("/data", "/etc/one.csv")).permitted(path) == opened
    assert NO_FILES.permitted(path) is None


def test_a_refusal_names_the_setting_and_what_it_has() -> None:
    assert NO_FILES.refusal().startswith(f"the worker's file must allow it: {ALLOWED_PATHS} is not set. ")
    assert f"{ALLOWED_PATHS} has /data, /etc/x. " in LookupPaths(("/data", "/etc/x")).refusal()


def test_a_worker_reads_no_file_of_a_lookup_unless_its_properties_name_a_directory(tmp_path: Path) -> None:
    assert worker_config(MINIMAL, warnings=False).lookup_paths == NO_FILES
    given = {**MINIMAL, ALLOWED_PATHS: f" {tmp_path}/../{tmp_path.name} , /"}
    config = worker_config(given, warnings=False)
    assert config.lookup_paths == LookupPaths.of(given) == LookupPaths((str(tmp_path), "/"))
    # It is the worker's, and not Spark's.
    assert ALLOWED_PATHS not in config.spark


@pytest.mark.parametrize(
    ("value", "problem"), [("data", "is not absolute"), ("/,data", "Path data"), ("/no/such/place", "does not exist")]
)
def test_a_path_that_kafka_would_refuse_ends_the_start(value: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        worker_config({**MINIMAL, ALLOWED_PATHS: value}, warnings=False)
    assert raised.value.name == ALLOWED_PATHS


def test_topics_and_wrong_locations_are_no_files() -> None:
    config = {
        "spark.transform.lookup.a": "/data/a.csv",
        "spark.transform.lookup.b": "source.b",
        "spark.transform.lookup.c": "c",
        "spark.transform.lookup.refresh.interval.seconds": "5",
        ALLOWED_PATHS: "/data/x.csv",
    }
    assert list(files_of_lookups(config)) == [("spark.transform.lookup.a", "/data/a.csv")]
