"""Errors that carry their meaning from where they are raised to whoever shows them.

Texts are Kafka Connect's own where it has one, because scripts and consoles look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class StartupError(Exception):
    """The worker can't start. The text is one line for the user that names the thing and what to do."""


class ConnectError(Exception):
    """Told to the caller as it is: `status` is the HTTP status and the error_code of the body."""

    status: ClassVar[int] = 500


class BadRequest(ConnectError):
    """What was asked makes no sense; asking again doesn't help."""

    status = 400


class NotStopped(BadRequest):
    """Offsets are to be changed of a connector that may be writing them."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )


class Unauthorized(ConnectError):
    """No credentials, or wrong ones."""

    status = 401

    def __init__(self) -> None:
        super().__init__("User cannot access the resource.")


class Forbidden(ConnectError):
    """Switched off by the worker's settings."""

    status = 403


class NotFound(ConnectError):
    """Something named in the request does not exist."""

    status = 404


class ConnectorNotFound(NotFound):
    """Info, config, tasks, offsets, delete, patch of an unknown connector."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Connector {name} not found")


class UnknownConnector(NotFound):
    """Pause, resume, stop of an unknown connector."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown connector {name}")


class RestartOfUnknownConnector(NotFound):
    """Restart of an unknown connector; Connect words it with a colon."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown connector: {name}")


class UnknownTask(NotFound):
    """Restart of a task that never existed."""

    def __init__(self, connector: str, task: int) -> None:
        super().__init__(f"Unknown task: {connector}-{task}")


class NoStatus(NotFound):
    """Nothing is known of the state of a connector, or of one of its tasks."""

    def __init__(self, connector: str, task: int | None = None) -> None:
        what = f"connector {connector}" if task is None else f"task {connector}-{task}"
        super().__init__(f"No status found for {what}")


class LoggerNotFound(NotFound):
    """The level of a logger that nobody has used or named."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Logger {name} not found.")


class InvalidLogLevel(NotFound):
    """A level that log4j does not have; 404 as in Connect."""

    def __init__(self, level: str) -> None:
        super().__init__(f"invalid log level '{level}'.")


class Conflict(ConnectError):
    """Not now, or not again."""

    status = 409


class ConnectorExists(Conflict):
    """A connector is created that there is already. Final."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Connector {name} already exists")


class NotLeader(Conflict):
    """Another worker of the group writes. Passes with time, or elsewhere; clients repeat it.

    The first sentence is Connect's. `leader_url`: where the request is to be sent, None while nobody leads; `why`: a
    sentence on why nobody does, as far as that is known.
    """

    def __init__(self, leader_url: str | None = None, why: str | None = None) -> None:
        text = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        if leader_url is not None:
            text += f". This worker stands by; send the request to the leader, {leader_url}"
        elif why is not None:
            text += f". {why}"
        super().__init__(text)


class StaleConfiguration(Conflict):
    """What was asked for before is still under way. Passes with time."""

    def __init__(self) -> None:
        super().__init__(
            "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
        )


class TaskWithoutOwner(Conflict):
    """A task index that existed earlier (before a stop or with a larger tasks.max)."""

    def __init__(self) -> None:
        super().__init__(
            "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
        )


class BodyTooLarge(ConnectError):
    """A request body above the limit."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than the {limit} bytes that this worker accepts")


class TooManyBodies(ConnectError):
    """Others send so much at this moment that there is no room for one more large body."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The worker is sent too many large request bodies at once. Try again in a moment")


class BodyTooSlow(ConnectError):
    """A request body did not come to its end in time."""

    status = 408

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request body was not complete after {seconds:g} s")


class NoSessionKey(ConnectError):
    """A request between workers comes before the key is known that signs it."""

    status = 503

    def __init__(self) -> None:
        super().__init__(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )


class NotReady(ConnectError):
    """The worker has not read its topics or joined its group yet."""

    status = 503

    def __init__(self, stage: str) -> None:
        super().__init__(f"The worker is still starting up: {stage}. Try again in a moment")


class ShuttingDown(ConnectError):
    """The worker ends; another one may answer."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The worker is shutting down")


class StartFailed(ConnectError):
    """A connector or task was asked to start anew and failed again; its status has the trace."""


class InvalidConfig(BadRequest):
    """A connector config with errors; all of them are told at once."""

    def __init__(self, errors: Sequence[str]) -> None:
        lines = "\n".join(errors)
        super().__init__(
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\n"
            "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
        )
