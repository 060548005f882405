"""Which workers are warned that their config providers give anything to anybody."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.config.worker_config import worker_config
from tests.paths import ROOT

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PACKAGE = "org.apache.kafka.common.config.provider."
FILE = {"config.providers": "file", "config.providers.file.class": PACKAGE + "FileConfigProvider"}
DIRECTORY = {"config.providers": "d", "config.providers.d.class": PACKAGE + "DirectoryConfigProvider"}
VARIABLES = {"config.providers": "env", "config.providers.env.class": PACKAGE + "EnvVarConfigProvider"}
LOGIN = {"rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"}
EVERYWHERE = {"listeners": "http://0.0.0.0:8083"}


def warnings(given: dict[str, str], caplog: pytest.LogCaptureFixture) -> list[str]:
    needed = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    needed |= {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "key.converter": BYTES, "value.converter": BYTES}
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        worker_config(needed | given, {})
    return [line for line in caplog.messages if "config provider" in line]


@pytest.mark.parametrize(
    ("provider", "limit"),
    [
        pytest.param(FILE, "config.providers.file.param.allowed.paths", id="file"),
        pytest.param(DIRECTORY, "config.providers.d.param.allowed.paths", id="directory"),
        pytest.param(VARIABLES, "config.providers.env.param.allowlist.pattern", id="environment"),
    ],
)
@pytest.mark.parametrize(
    "listeners", ["http://0.0.0.0:8083", "http://:8083", "http://127.0.0.1:1,http://10.0.0.1:8083"]
)
def test_a_provider_without_limit_is_told_with_the_setting_where_anybody_may_ask(
    caplog: pytest.LogCaptureFixture, provider: dict[str, str], limit: str, listeners: str
) -> None:
    (line,) = warnings(provider | {"listeners": listeners}, caplog)
    assert f"set {limit};" in line
    assert listeners.rpartition(",")[2] in line


def test_connects_own_default_listener_is_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    assert len(warnings(FILE, caplog)) == 1


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(FILE | {"listeners": "http://127.0.0.1:8083,http://[::1]:8083,http://localhost:1"}, id="loopback"),
        pytest.param(FILE | EVERYWHERE | LOGIN, id="login"),
        pytest.param(EVERYWHERE, id="no_provider"),
        pytest.param(FILE | EVERYWHERE | {"config.providers.file.param.allowed.paths": "/"}, id="limited_files"),
        pytest.param(
            VARIABLES | EVERYWHERE | {"config.providers.env.param.allowlist.pattern": "A.*"}, id="limited_names"
        ),
        pytest.param(
            EVERYWHERE | {"config.providers.file.class": FILE["config.providers.file.class"]}, id="not_declared"
        ),
    ],
)
def test_who_is_limited_or_known_is_not_warned(caplog: pytest.LogCaptureFixture, given: dict[str, str]) -> None:
    assert warnings(given, caplog) == []


def test_the_samples_provider_is_limited() -> None:
    sample = (ROOT / "deploy" / "sample" / "worker.properties").read_text("utf-8")
    assert ("config.providers.file.class" in sample) == ("config.providers.file.param.allowed.paths=/" in sample)
