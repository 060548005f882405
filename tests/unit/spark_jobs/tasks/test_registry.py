"""Every connector has a task function."""

from __future__ import annotations

from mirror_connect.connectors import CONNECTORS
from mirror_connect.spark_jobs.tasks.registry import TASKS


def test_every_connector_class_has_a_task() -> None:
    assert set(TASKS) == {definition.class_name for definition in CONNECTORS.values()}
