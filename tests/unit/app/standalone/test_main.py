"""What a standalone worker looks at before anything of it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from mirror_connect.app.errors import ConnectorFileRefused
from mirror_connect.app.standalone.__main__ import prepare
from mirror_connect.connectors.secrets import RedactingFilter

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "No such file or directory", id="absent"),
        pytest.param("tasks.max=1\n", "it has no name", id="nameless"),
        pytest.param("name=good\n", "its name good is that of {good}; each connector needs its own", id="a_name_twice"),
        pytest.param('{"name": "copy"', "Expecting ',' delimiter at line 1", id="cut_off"),
    ],
)
def test_a_connectors_file_that_cannot_be_used_ends_the_start_before_anything_else(
    tmp_path: Path, content: str | None, said: str
) -> None:
    worker, good, bad = tmp_path / "worker.properties", tmp_path / "good", tmp_path / "bad"
    worker.write_text(
        f"bootstrap.servers=127.0.0.1:1\noffset.storage.file.filename={tmp_path}/offsets\n"
        f"key.converter={BYTES}\nvalue.converter={BYTES}\n"
    )
    good.write_text("name=good\n")
    if content is not None:
        bad.write_text(content)
    with pytest.raises(ConnectorFileRefused) as raised:
        prepare([str(worker), str(good), str(bad)], RedactingFilter())
    assert str(raised.value).startswith(f"Connector file {bad}: ")
    assert said.format(good=good) in str(raised.value)
