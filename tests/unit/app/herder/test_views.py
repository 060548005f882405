"""What the herder answers shows no secret by accident, and nulls are settings that are not set."""

from __future__ import annotations

from mirror_connect.app.herder.views import ConnectorInfo
from mirror_connect.app.storage.config_records import set_values


def test_nulls_are_not_set_and_empty_texts_are() -> None:
    assert set_values({"a": "1", "b": None, "c": ""}) == {"a": "1", "c": ""}


def test_a_connectors_config_is_not_in_its_repr() -> None:
    assert "s3cret" not in repr(ConnectorInfo("a", {"password": "s3cret"}, (), "source"))
