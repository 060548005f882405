"""Config providers that fail while a task runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.app.worker_connectors.resolved_task_configs import ResolvedTaskConfigs
from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import TaskId

TASK = TaskId("mirror", 0)
CONFIG = {"password": "${file:/secrets:password}", "task.assigned.partitions": "orders-0"}


class Provider:
    """One secret, or none."""

    def __init__(self) -> None:
        self.secret: str | None = "first"

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        if self.secret is None:
            raise RefusedConfig("password", "/secrets can't be read")
        return {name: self.secret if value.startswith("${") else value for name, value in config.items()}


async def test_a_provider_that_fails_at_a_runs_beginning_is_an_error() -> None:
    provider = Provider()
    runs = ResolvedTaskConfigs(provider.resolve)
    await runs.of(TASK, "earlier", CONFIG)
    provider.secret = None
    with pytest.raises(ConfigError, match="/secrets"):
        await runs.of(TASK, "run", CONFIG)


async def test_a_provider_that_fails_later_leaves_the_values_of_before_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider()
    runs = ResolvedTaskConfigs(provider.resolve)
    await runs.of(TASK, "run", CONFIG)
    provider.secret = None
    grown = {**CONFIG, "task.assigned.partitions": "orders-0,orders-1"}
    assert await runs.of(TASK, "run", grown) == {
        "password": "first",
        "task.assigned.partitions": "orders-0,orders-1",
    }
    assert "/secrets can't be read" in caplog.text


async def test_a_changed_secret_is_found_at_the_next_epoch() -> None:
    provider = Provider()
    runs = ResolvedTaskConfigs(provider.resolve)
    await runs.of(TASK, "run", CONFIG)
    provider.secret = "second"
    assert (await runs.of(TASK, "run", CONFIG))["password"] == "second"


async def test_the_values_of_a_task_that_is_no_more_are_forgotten() -> None:
    provider = Provider()
    runs = ResolvedTaskConfigs(provider.resolve)
    await runs.of(TASK, "run", CONFIG)
    runs.keep({TaskId("mirror", 1)})
    provider.secret = None
    with pytest.raises(ConfigError, match="/secrets"):
        await runs.of(TASK, "run", CONFIG)
