"""docs/configuration.md is made from the tables that the code reads."""

from __future__ import annotations

import pytest

from docs.generate_configuration import COMMAND, document
from mirror_connect.app.config.worker_keys import WORKER_KEYS
from mirror_connect.connectors import DEFINITIONS
from mirror_connect.kafka_io.client.client_keys import CLIENT_NAMES
from tests.paths import ROOT

WRITTEN = (ROOT / "docs" / "configuration.md").read_text("utf-8")


def test_the_configuration_page_is_made_from_the_tables() -> None:
    assert document() == WRITTEN, f"run: {COMMAND}"


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(list(WORKER_KEYS.keys), id="worker"),
        pytest.param([key.name for definition in DEFINITIONS for key in definition.definition_order], id="connectors"),
        pytest.param(sorted(CLIENT_NAMES), id="clients"),
    ],
)
def test_every_setting_is_on_the_page(names: list[str]) -> None:
    assert [name for name in names if f"`{name}`" not in WRITTEN] == []
