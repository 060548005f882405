"""The interfaces of a worker connector: the events that it reports to the herder, and how the herder runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.verified_records import VerifiedRecords

# Shows the present problems of one source in the connector's status; an empty list: they are resolved.
ShowProblems = Callable[[Sequence[Problem]], None]
# Problems of each source; of the others only their number.
MOST_SHOWN: Final = 3
FORMER_TASKS: Final = "its tasks still have an earlier config"


class ConnectorEvents(Protocol):
    """The herder's side. All methods are called on the worker's event loop only."""

    def connector_started(self, name: str) -> None:
        """The connector runs."""

    def connector_failed(self, name: str, trace: str) -> None:
        """The connector can't continue until it is restarted or reconfigured."""

    def connector_problem(self, name: str, line: str | None) -> None:
        """The connector continues with this problem; None: it has no problem any more."""

    def connector_problems(self, name: str, problems: Sequence[Problem], secrets: Collection[str]) -> None:
        """The same problems one by one, and the secrets that no text may show; the empty list: there are none any more."""

    def connector_verified(self, name: str, verified: VerifiedRecords | None) -> None:
        """What sampling verification has counted since the connector's start; None: it has ended."""

    def task_configs_changed(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """The connector wants tasks with these configs from now on (raw, secrets unresolved)."""


class ConnectorContext:
    """The context of one start of a connector, as in Kafka Connect: it reports to the herder, on the worker's event loop.

    `secrets` are hidden in all texts. `former_tasks`: until it requests others, its tasks are those of an earlier config.
    After `close` it reports nothing: the connector may have been started again.
    """

    def __init__(self, name: str, events: ConnectorEvents, *, former_tasks: bool = False) -> None:
        self.name = name
        self.secrets: frozenset[str] = frozenset()
        self._former_tasks = former_tasks
        self._events = events
        self._closed = False
        self._verified = False
        # One entry for each source, in the order of their requests.
        self._problems: list[tuple[Problem, ...]] = []

    @property
    def closed(self) -> bool:
        """Whether this start of the connector is over."""
        return self._closed

    def close(self) -> None:
        """Reports nothing from now on."""
        if not self._closed and any(self._problems):
            self._events.connector_problems(self.name, (), self.secrets)
        if not self._closed and self._verified:
            self._events.connector_verified(self.name, None)
        self._closed = True

    def started(self) -> None:
        """The connector runs."""
        if not self._closed:
            self._events.connector_started(self.name)

    def raise_error(self, trace: str) -> None:
        """The connector can't continue: it is FAILED."""
        if not self._closed:
            self._events.connector_failed(self.name, redact(self.and_its_tasks(trace), self.secrets))

    def request_task_reconfiguration(self, task_configs: Sequence[Mapping[str, str]]) -> None:
        """The connector wants tasks with these configs (raw, secrets unresolved)."""
        self._former_tasks = False
        if not self._closed:
            self._events.task_configs_changed(self.name, task_configs)

    def and_its_tasks(self, text: str) -> str:
        """The text; its first line also says that the tasks are those of an earlier config, if they are.

        As in Connect they go on. Who has just changed the config may take RUNNING tasks for a success.
        """
        if not self._former_tasks:
            return text
        first, end, others = text.partition("\n")
        return "; ".join(filter(None, (first.rstrip("."), FORMER_TASKS))) + end + others

    def verified(self, records: VerifiedRecords) -> None:
        """Sampling verification has counted so much since the connector's start."""
        if not self._closed:
            self._verified = True
            self._events.connector_verified(self.name, records)

    def source_of_problems(self) -> ShowProblems:
        """A place in the connector's status for one source of problems; the status shows those of all sources."""
        place = len(self._problems)
        self._problems.append(())

        def show(problems: Sequence[Problem]) -> None:
            if self._problems[place] == tuple(problems):
                return
            self._problems[place] = tuple(problems)
            if not self._closed:
                joined = "; ".join(in_one_line(each) for each in self._problems if each)
                self._events.connector_problem(self.name, redact(joined, self.secrets) or None)
                every = [each for of_source in self._problems for each in of_source]
                self._events.connector_problems(self.name, every, self.secrets)

        return show


def in_one_line(problems: Sequence[Problem]) -> str:
    """The problems of one source as the status and the log show them; empty without problems."""
    lines = [problem.line for problem in problems[:MOST_SHOWN]]
    more = len(problems) - len(lines)
    return "; ".join([*lines, f"and {more} more"] if more else lines)


class WorkerConnector(Protocol):
    """One running connector instance."""

    def start(self) -> None:
        """Begins in the background; returns at once."""

    async def stop(self) -> None:
        """Ends it; a Kafka call in progress is abandoned, and its result ignored."""
