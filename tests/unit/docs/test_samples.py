"""The files in deploy/sample are ones that the worker takes."""

from __future__ import annotations

import json
import logging

import pytest

from mirror_connect.app.config.worker_config import load_worker_config
from mirror_connect.connectors import connector_definition
from tests.paths import ROOT

SAMPLE = ROOT / "deploy" / "sample"


def test_the_sample_worker_is_accepted_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = load_worker_config(SAMPLE / "worker.properties", {})
    assert (config.worker_id(), config.group_id, caplog.messages) == ("127.0.0.1:8083", "connect-cluster", [])


def test_the_sample_connector_is_accepted_without_a_warning() -> None:
    config = {"name": "mirror-source", **json.loads((SAMPLE / "mirror-source.json").read_text("utf-8"))}
    definition = connector_definition(config["connector.class"])
    errors = {name: result.errors for name, result in definition.validate(config).items() if result.errors}
    assert (errors, definition.warnings(config)) == ({}, [])
