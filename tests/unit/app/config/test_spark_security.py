"""The secret of a standalone Spark cluster: where it comes from, and what is refused without it."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from mirror_connect.app.config.spark_security import AUTHENTICATE, CRYPTO, SECRET, SECRET_FILE, secured
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.errors import ConfigError
from tests.unit.app.config.test_worker_config import MINIMAL

STANDALONE = {"spark.master": "spark://a:7077"}


@pytest.mark.parametrize("master", ["local[4,4]", "yarn", "k8s://https://a:6443"])
def test_other_masters_need_none(master: str) -> None:
    assert secured({"spark.master": master}) == {"spark.master": master}


def test_a_standalone_cluster_without_a_secret_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as refused:
        worker_config(MINIMAL | STANDALONE)
    assert refused.value.name == SECRET


def test_a_secret_may_come_from_a_config_provider(tmp_path: Path) -> None:
    tmp_path.joinpath("spark").write_text("key=hush-hush-7\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        SECRET: f"${{file:{tmp_path / 'spark'}:key}}",
    }
    config = worker_config(MINIMAL | STANDALONE | providers)
    assert config.spark[SECRET] == "hush-hush-7"
    assert "hush-hush-7" not in repr(config)


def test_a_file_is_read_as_spark_reads_it_and_executors_need_no_such_path(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\x00\xffhush\n")
    found = secured({**STANDALONE, SECRET_FILE: str(path), f"{SECRET}.executor.file": "/elsewhere"})
    assert found == {**STANDALONE, SECRET: base64.b64encode(b"\x00\xffhush\n").decode()}


@pytest.mark.parametrize("content", [None, b""])
def test_a_file_without_a_secret_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        secured({**STANDALONE, SECRET_FILE: str(path)})
    assert refused.value.name == SECRET_FILE


def test_who_says_so_does_without_and_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    found = secured({**STANDALONE, AUTHENTICATE: "false"})
    assert (found[AUTHENTICATE], found[CRYPTO], SECRET in found) == ("false", "false", False)
    assert len(caplog.records) == 1
