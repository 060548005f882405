"""The contract in the repository is what the application serves."""

from __future__ import annotations

from mirror_connect.app.rest.openapi import openapi_yaml
from tests.paths import ROOT


def test_openapi_yaml_is_made_from_the_application() -> None:
    written = (ROOT / "openapi.yaml").read_text("utf-8")
    assert written == openapi_yaml(), "run: python -m mirror_connect.app.rest.openapi > openapi.yaml"
