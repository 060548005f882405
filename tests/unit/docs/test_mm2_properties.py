"""The examples in docs/mm2-properties.md are a file that starts, on clusters of one broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mirror_connect.app.dedicated.mm2_file import read_mm2_config
from tests.paths import ROOT

_BLOCK: Final = re.compile(r"^```properties\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FACTOR: Final = "replication.factor"


def test_the_examples_are_a_file_without_a_finding_whose_topics_all_fit_on_one_broker(tmp_path: Path) -> None:
    blocks = _BLOCK.findall((ROOT / "docs" / "mm2-properties.md").read_text("utf-8"))
    assert len(blocks) == 2
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join(blocks))
    config = read_mm2_config(file)
    assert config.warnings == ()
    for flow in config.flows:
        storage = {name: value for name, value in flow.worker.items() if name.endswith(f".storage.{FACTOR}")}
        assert (len(storage), set(storage.values())) == (3, {"1"})
        for connector in flow.connectors.values():
            assert {connector[name] for name in (FACTOR, *(f"{topic}.topic.{FACTOR}" for topic in OWN))} == {"1"}


OWN: Final = ("offset-syncs", "checkpoints", "heartbeats")
