"""What a restart request with parameters restarts, decided from the states: the same for the answer and for the restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.storage.config_records import RestartRequest
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.connectors.task_protocol import TaskId


class States(Protocol):
    """Present states."""

    def state(self, subject: str | TaskId) -> State | None:
        """The state of a connector (by name) or task."""


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """`connector`: the instance itself; `tasks`: these of its tasks."""

    connector: bool
    tasks: tuple[TaskId, ...]

    @classmethod
    def of(cls, request: RestartRequest, snapshot: ConfigSnapshot, states: States) -> RestartPlan:
        """Everything that the request names, or only the failed part of it."""
        name = request.connector
        if not snapshot.contains(name):
            return cls(False, ())
        concerns: Callable[[str | TaskId], bool] = (
            (lambda subject: states.state(subject) is State.FAILED) if request.only_failed else (lambda _: True)
        )
        tasks = [TaskId(name, number) for number in range(snapshot.task_count(name))] if request.include_tasks else []
        return cls(concerns(name), tuple(task for task in tasks if concerns(task)))
