"""The settings task.*: what they are without a value, and which values are refused."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.task_listener import ANY, TaskListener
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.errors import ConfigError
from tests.unit.app.config.test_worker_config import MINIMAL


def test_without_a_value_everything_follows_sparks_driver() -> None:
    assert worker_config(MINIMAL).task_listener == ANY


def test_what_executors_are_told_may_be_something_else() -> None:
    given = {
        "task.listener.host": "10.0.0.7",
        "task.listener.port": "8443",
        "task.advertised.host.name": "worker.example",
        "task.advertised.port": "443",
    }
    assert worker_config(MINIMAL | given).task_listener == TaskListener("10.0.0.7", 8443, "worker.example", 443)


@pytest.mark.parametrize("name", ["task.listener.port", "task.advertised.port"])
@pytest.mark.parametrize("port", ["-1", "65536", "https"])
def test_a_port_that_is_none_is_refused_by_name(name: str, port: str) -> None:
    with pytest.raises(ConfigError) as refused:
        worker_config(MINIMAL | {name: port})
    assert refused.value.name == name
