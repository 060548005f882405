"""The connectors' files on the command line: three forms, and what is said of a file that has none of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mirror_connect.app.errors import ConnectorFileRefused
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.standalone.connector_files import read_connector_file


@pytest.mark.parametrize(
    ("content", "config", "state"),
    [
        pytest.param("name=c\ntasks.max: 2\n", {"name": "c", "tasks.max": "2"}, None, id="properties"),
        pytest.param(
            '{"name": "c", "tasks.max": 2, "x": true, "y": 1.50}',
            {"name": "c", "tasks.max": "2", "x": "true", "y": "1.50"},
            None,
            id="settings",
        ),
        pytest.param('{"name": "c", "x": null}', {"name": "c", "x": None}, None, id="null_for_the_validation"),
        pytest.param(
            '{"name": "c", "config": {"a": "b"}, "initial_state": "stopped", "unknown": 1}',
            {"a": "b", "name": "c"},
            TargetState.STOPPED,
            id="request",
        ),
        pytest.param('\ufeff {"name": "c", "config": {"name": "c"}}', {"name": "c"}, None, id="byte_order_mark"),
        pytest.param(
            '{"name": "c", "config": "text"}', {"name": "c", "config": "text"}, None, id="config_as_a_setting"
        ),
    ],
)
def test_the_content_tells_the_form(
    tmp_path: Path, content: str, config: dict[str, str | None], state: TargetState | None
) -> None:
    path = tmp_path / "any.name"
    path.write_text(content)
    found = read_connector_file(str(path))
    assert (found.name, found.config, found.initial_state) == ("c", config, state)
    assert list(found.config) == list(config)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "it has no name", id="empty"),
        pytest.param(b"tasks.max=1", "it has no name", id="nameless_properties"),
        pytest.param(b'{"a": "b"}', "it has no name", id="nameless_settings"),
        pytest.param(b'{"name": ""}', "it has no name", id="empty_name"),
        pytest.param(
            b'{"name": "c"', "it is not valid JSON: Expecting ',' delimiter at line 1, column 13", id="cut_off"
        ),
        pytest.param(b"[]", "it must be a JSON object with name and config", id="array"),
        pytest.param(b'{"name": "c", "x": {"secret": "hunter22"}}', "The value of 'x' must be text", id="nested"),
        pytest.param(
            b'{"name": "c", "config": {"name": "d"}}',
            "the name in config (d) is not the member name (c)",
            id="two_names",
        ),
        pytest.param(b'{"config": {"name": "d"}}', "is not the member name (None)", id="only_in_config"),
        pytest.param(
            b'{"name": "c", "config": {}, "initial_state": "banana"}', "there is no initial_state banana", id="state"
        ),
        pytest.param(b"name=c\nx=\\u12", "line 2 has a \\u without", id="escape"),
        pytest.param(b"name=c\\ud83d", "its name holds half of a surrogate pair", id="half_a_pair"),
    ],
)
def test_what_has_no_form_is_refused_with_the_file_and_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(ConnectorFileRefused) as raised:
        read_connector_file(str(path))
    assert str(raised.value).startswith(f"Connector file {path}: ")
    assert reason in str(raised.value)
    assert "hunter22" not in str(raised.value)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorFileRefused, match="No such file or directory"):
        read_connector_file(str(tmp_path / "absent"))


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ConnectorFileRefused, match="Connector file /dev/zero: it has more than 16 MiB"):
        read_connector_file("/dev/zero")


def test_a_file_may_come_by_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("name=c\n",))
    writer.start()
    assert read_connector_file(str(path)).name == "c"
    writer.join()
