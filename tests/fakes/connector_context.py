"""A connector's context that keeps what the herder would hear, in its order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.verified_records import VerifiedRecords
from tests.waiting import state_reached


class FakeContext(ConnectorContext):
    """`heard`: "started", ("failed", trace), ("problem", line), and the task configs of each request as a list.

    `problems`: the newest, one by one. `verifications`: each result of sampling verification; None: it has ended.
    """

    def __init__(self, name: str = "c", *, former_tasks: bool = False) -> None:
        super().__init__(name, self, former_tasks=former_tasks)
        self.heard: list[Any] = []
        self.problems: tuple[Problem, ...] = ()
        self.verifications: list[VerifiedRecords | None] = []

    @property
    def tasks(self) -> list[Mapping[str, str]]:
        """The newest task configs."""
        found: list[list[Mapping[str, str]]] = [each for each in self.heard if isinstance(each, list)]
        return found[-1]

    def connector_started(self, name: str) -> None:
        self.heard.append("started")

    def connector_failed(self, name: str, trace: str) -> None:
        self.heard.append(("failed", trace))

    def connector_problem(self, name: str, line: str | None) -> None:
        self.heard.append(("problem", line))

    def connector_problems(self, name: str, problems: Sequence[Problem], secrets: Collection[str]) -> None:
        self.problems = tuple(problems)

    def connector_verified(self, name: str, verified: VerifiedRecords | None) -> None:
        self.verifications.append(verified)

    def task_configs_changed(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        self.heard.append(list(task_configs))

    async def until(self, condition: Callable[[list[Any]], Any]) -> None:
        """Waits until what was heard fulfils a condition."""
        await state_reached(lambda: condition(self.heard), "the herder hears it", pause=0.005)

    async def task_requests(self, count: int = 1) -> None:
        """Waits for so many requests for tasks from now on."""
        before = sum(isinstance(each, list) for each in self.heard)
        await self.until(lambda heard: sum(isinstance(each, list) for each in heard) >= before + count)


async def no_offsets(config: Mapping[str, str]) -> OffsetStore:
    """For connectors that ask for none."""
    raise AssertionError(f"offsets of {config.get('name')} were asked for")
