"""REST errors with their HTTP status and message, and StartupError.

Texts are Kafka Connect's own where it has one, because scripts and consoles look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

CONFLICTING: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
UNKNOWN_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)


class StartupError(Exception):
    """The worker can't start. The text is one line for the user that names the thing and what to do."""


class RecordsRefused(Exception):
    """The target refuses records, and the user wants the program to end then. The text is one line: what, and why."""


class ConnectorFileRefused(Exception):
    """A connector's file on the command line can't be read, or its connector is refused or does not start."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"Connector file {path}: {reason}")


class ConnectError(Exception):
    """REST answers with its text as it is. `status` is the HTTP status and the error_code of the body."""

    status: ClassVar[int] = 500

    @property
    def line(self) -> str:
        """The text in one line, for the log and the end of a start: without what only a client of REST can use."""
        return " ".join(str(self).split())


class BadRequest(ConnectError):
    """The request makes no sense; to repeat it doesn't help."""

    status = 400


class NotStopped(BadRequest):
    """A request changes the offsets of a connector that may be writing them."""

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
    """The worker's settings switch this off."""

    status = 403


class ReadOnly(Forbidden):
    """A request would change something, and the worker's settings allow no such request."""

    def __init__(self) -> None:
        super().__init__(
            "This worker's REST changes nothing: its properties have rest.read.only=true. Ask a worker without it, or "
            "change the property and start the worker again"
        )


class NotFound(ConnectError):
    """Something named in the request does not exist."""

    status = 404


class ConnectorNotFound(NotFound):
    """The connector is unknown. For info, config, tasks, offsets, delete and patch."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Connector {name} not found")


class UnknownConnector(NotFound):
    """The connector is unknown. For pause, resume and stop."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown connector {name}")


class RestartOfUnknownConnector(NotFound):
    """The connector is unknown. For restart, where Connect's text has a colon."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown connector: {name}")


class UnknownTask(NotFound):
    """The task to restart never existed."""

    def __init__(self, connector: str, task: int) -> None:
        super().__init__(f"Unknown task: {connector}-{task}")


class TaskNotFound(NotFound):
    """The task to restart does not exist; the text of standalone mode."""

    def __init__(self, task: object) -> None:
        super().__init__(f"Task {task} not found")


class NoStatus(NotFound):
    """The state of a connector, or of one of its tasks, is unknown."""

    def __init__(self, connector: str, task: int | None = None) -> None:
        what = f"connector {connector}" if task is None else f"task {connector}-{task}"
        super().__init__(f"No status found for {what}")


class LinkNotFound(NotFound):
    """No connector copies in this direction."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Link {name} not found")


class LoggerNotFound(NotFound):
    """Nobody has used or named this logger, so it has no level."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Logger {name} not found.")


class InvalidLogLevel(NotFound):
    """log4j has no such level; 404 as in Connect."""

    def __init__(self, level: str) -> None:
        super().__init__(f"invalid log level '{level}'.")


class Conflict(ConnectError):
    """The request conflicts with the present state."""

    status = 409


class ConnectorExists(Conflict):
    """A connector of this name exists already. To repeat the request doesn't help."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Connector {name} already exists")


class WrongWorker(Conflict):
    """Another worker has to carry out the request. REST forwards it there (app/rest/forwarding.py).

    The first sentence is Connect's. `url`: of that worker, None while it is unknown; `why`: a sentence on that, if known.
    """

    def __init__(self, url: str | None = None, why: str | None = None) -> None:
        self.url = url
        if url is not None:
            text = f"{CONFLICTING}. {self._sentence(url)}"
        else:
            text = UNKNOWN_LEADER + ("" if why is None else f" {why}")
        super().__init__(text)

    def _sentence(self, url: str) -> str:
        return f"The worker at {url} has to carry it out"


class NotLeader(WrongWorker):
    """This worker does not lead, and only the leader writes."""

    def _sentence(self, url: str) -> str:
        return f"This worker stands by; send the request to the leader, {url}"


class NotAssigned(WrongWorker):
    """Another worker runs the connector or task."""

    def _sentence(self, url: str) -> str:
        return f"Another worker runs it: {url}"


class TooManyHops(Conflict):
    """A request was forwarded twice and did not find its worker: the group changes in this moment."""

    def __init__(self) -> None:
        super().__init__(CONFLICTING)


class WorkerUnreachable(ConnectError):
    """A request for another worker got no answer. The first words are Connect's.

    `sent`: whether that worker may have got the request, so that it is unknown what it did.
    """

    def __init__(self, url: str, why: str, *, sent: bool) -> None:
        self.sent = sent
        unknown = ". It is unknown whether it has carried out the request" if sent else ""
        super().__init__(f"IO Error trying to forward REST request: the worker at {url} {why}{unknown}")


class StaleConfiguration(Conflict):
    """An earlier request is still in progress. Clients repeat this one later."""

    def __init__(self) -> None:
        super().__init__(
            "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
        )


class TasksElsewhere(Conflict):
    """Tasks of a stopped connector may still write their source offsets on other workers. `why` names these."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"Tasks of connector {name} may still write source offsets: {why}. Repeat the request when that is over"
        )


class TaskWithoutOwner(Conflict):
    """The task existed earlier: before a stop, or with a larger tasks.max."""

    def __init__(self) -> None:
        super().__init__(UNKNOWN_LEADER)


class BodyTooLarge(ConnectError):
    """The request body is above the limit."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than the {limit} bytes that this worker accepts")


class TooManyBodies(ConnectError):
    """Other requests send so much now that there is no room for one more large body."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The worker receives too many large request bodies at once. Try again in a moment")


class BodyTooSlow(ConnectError):
    """The request body was not complete in time."""

    status = 408

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request body was not complete after {seconds:g} s")


class NoSessionKey(ConnectError):
    """A request between workers came before this worker knows the key that signs it."""

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


class SparkNotReady(ConnectError):
    """Spark is needed for the answer, and did not give it in time."""

    status = 503


class ShuttingDown(ConnectError):
    """The worker ends; another worker may answer."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The worker is shutting down")


class ClusterAway(ConnectError):
    """A cluster that a config names does not answer, or refuses the login, and no answer is possible without it."""

    status = 502


class NotInStandaloneMode(ConnectError):
    """A request between workers of a group; a standalone worker has none."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Kafka Connect in standalone mode does not support {what}.")


class StartFailed(ConnectError):
    """A restarted connector or task failed again; its status has the trace."""


class InvalidConfig(BadRequest):
    """A connector config has errors; the text lists all of them."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        lines = "\n".join(errors)
        super().__init__(
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{lines}\n"
            "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
        )

    @property
    def line(self) -> str:
        """See ConnectError."""
        return " ".join("; ".join(self.errors).split())


def first_cause(error: Exception) -> Exception:
    """The first error of a group: steps that run together fail as a group, and the user wants one reason."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
