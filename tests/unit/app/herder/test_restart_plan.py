"""What a restart request concerns, by what it asks for and by the states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.storage.config_records import RestartRequest, commit_entry, connector_entry, task_entry
from mirror_connect.app.storage.config_view import ConfigSnapshot, ConfigView
from mirror_connect.connectors.task_protocol import TaskId

ONE, TWO = TaskId("a", 0), TaskId("a", 1)


@dataclass
class States:
    known: Mapping[str | TaskId, State] = field(default_factory=dict)

    def state(self, subject: str | TaskId) -> State | None:
        return self.known.get(subject, State.RUNNING)


def snapshot() -> ConfigSnapshot:
    """Of connector `a` with two tasks."""
    view = ConfigView()
    for entry in (connector_entry("a", {}), task_entry("a", 0, {}), task_entry("a", 1, {}), commit_entry("a", 2)):
        view.apply(*entry)
    return view.snapshot()


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "failed", "plan"),
    [
        pytest.param(False, False, [], RestartPlan(True, ()), id="the_connector_alone"),
        pytest.param(True, False, [], RestartPlan(True, (ONE, TWO)), id="everything"),
        pytest.param(True, True, [TWO], RestartPlan(False, (TWO,)), id="the_failed_task"),
        pytest.param(True, True, ["a"], RestartPlan(True, ()), id="the_failed_connector"),
        pytest.param(False, True, [TWO], RestartPlan(False, ()), id="no_task_that_was_not_asked_for"),
    ],
)
def test_a_plan_has_what_was_asked_for(
    include_tasks: bool, only_failed: bool, failed: list[str | TaskId], plan: RestartPlan
) -> None:
    states = States(dict.fromkeys(failed, State.FAILED))
    assert RestartPlan.of(RestartRequest("a", include_tasks, only_failed), snapshot(), states) == plan


def test_nothing_of_a_connector_that_is_gone_is_restarted() -> None:
    request = RestartRequest("gone", include_tasks=True, only_failed=False)
    assert RestartPlan.of(request, snapshot(), States()) == RestartPlan(False, ())
