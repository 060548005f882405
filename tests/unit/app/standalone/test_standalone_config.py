"""The settings of a standalone worker: Connect's, without a group."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from mirror_connect.app.standalone.standalone_config import load_standalone_config, standalone_config
from mirror_connect.connectors.errors import ConfigError

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
MINIMAL: Final = {
    "bootstrap.servers": "a:1",
    "offset.storage.file.filename": "/tmp/offsets",
    "key.converter": BYTES,
    "value.converter": BYTES,
}


@pytest.mark.parametrize("name", MINIMAL)
def test_what_connect_needs_is_needed(name: str) -> None:
    rest = {each: value for each, value in MINIMAL.items() if each != name}
    with pytest.raises(ConfigError, match=f'Missing required configuration "{name}"'):
        standalone_config(rest)


def test_an_empty_file_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        standalone_config(MINIMAL | {"offset.storage.file.filename": " "})


def test_an_error_names_the_workers_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text(f"bootstrap.servers=a:1\nkey.converter={BYTES}\nvalue.converter={BYTES}\n")
    with pytest.raises(ConfigError) as raised:
        load_standalone_config(path)
    assert str(raised.value).startswith(f'{path}: Missing required configuration "offset.storage.file.filename"')
    assert raised.value.name == "offset.storage.file.filename"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("name=c\nconnector.class=MirrorHeartbeatConnector\n", id="properties"),
        pytest.param('{"name": "c", "config": {"connector.class": "MirrorHeartbeatConnector"}}', id="json"),
        pytest.param('{\n  "name": "c"\n}', id="indented_json"),
    ],
)
def test_a_connectors_file_in_the_place_of_the_workers_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "connector"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        load_standalone_config(path)
    assert str(raised.value).startswith(f"{path} is a connector's file, and the worker's file comes first: ")


def test_the_rest_is_that_of_every_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "worker.properties"
    given = MINIMAL | {"listeners": "http://127.0.0.1:0", "producer.linger.ms": "5", "offset.flush.interval.ms": "10"}
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    config = load_standalone_config(path)
    assert (config.offsets_file, config.offset_flush_interval_ms) == ("/tmp/offsets", 10)
    assert config.client("producer")["linger.ms"] == "5"
    assert (config.offset_topic, config.internal_topics(own_cluster=True)) == ("", frozenset())
    assert caplog.text == ""


def test_settings_of_a_group_are_named_as_unused_whatever_they_are(caplog: pytest.LogCaptureFixture) -> None:
    standalone_config(
        MINIMAL
        | {
            "group.id": "",
            "offset.storage.topic": "",
            "session.timeout.ms": "x",
            "exactly.once.source.support": "enabled",
        }
        | {"a.typo": "1"}
    )
    assert (
        "Without effect, as a standalone worker has no group and no topics: exactly.once.source.support, group.id, "
        "offset.storage.topic, session.timeout.ms" in caplog.text
    )
    assert "a.typo" in caplog.text


def test_an_error_quotes_the_reference_and_not_what_it_led_to(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key=hunter22\n")
    given = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "offset.flush.interval.ms": f"${{file:{secret}:key}}",
    }
    with pytest.raises(ConfigError) as raised:
        standalone_config(MINIMAL | given)
    assert "hunter22" not in str(raised.value)
