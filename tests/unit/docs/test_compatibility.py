"""docs/compatibility.md leaves nothing out that Connect and MirrorMaker 2 have."""

from __future__ import annotations

import re

import yaml

from docs.generate_compatibility import renewed
from mirror_connect.app.config.worker_keys import WORKER_KEYS
from mirror_connect.connectors import DEFINITIONS
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
WORKER, CONNECTOR = PAGE.split("## MirrorSourceConnector")


def _missing(names: list[str], text: str) -> list[str]:
    told = re.findall(r"`([^`]+)`", text)
    prefixes = tuple(name.removesuffix("*") for name in told if name.endswith(".*"))
    return [name for name in names if name not in told and not name.startswith(prefixes)]


def test_the_tables_of_settings_are_made_from_the_rows_that_check_judges_with() -> None:
    assert renewed(PAGE) == PAGE, "run: make docs"


def test_every_worker_setting_is_judged() -> None:
    assert _missing(list(WORKER_KEYS.keys), WORKER) == []


def test_every_connector_setting_is_judged() -> None:
    names = {key.name for each in DEFINITIONS for key in (*each.definition_order, *each.own_keys)}
    assert _missing(sorted(names), CONNECTOR) == []


def test_every_path_that_is_served_is_told() -> None:
    paths = yaml.safe_load((ROOT / "openapi.yaml").read_text("utf-8"))["paths"]
    # `PUT …/pause`, `/resume`, `/stop` share a row.
    assert [path for path in paths if path not in PAGE and f"`/{path.rsplit('/', 1)[1]}`" not in PAGE] == []
