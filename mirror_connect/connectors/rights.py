"""Rights (ACLs) and the users that need them. If a broker refuses something, one line names the missing right.

docs/rights.md lists all rights of each user, and what they are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized

# Users by their role, as in docs/rights.md.
WORKER_USER: Final = "the worker's user"
PRODUCING_USER: Final = "the producing user"
SOURCE_USER: Final = "the source user"
TARGET_USER: Final = "the target user"


def user_at(side: str) -> str:
    """The user at a side of a link, source or target."""
    return SOURCE_USER if side == "source" else TARGET_USER


class Resource(Enum):
    """The resource of a right, in words."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    CLUSTER = "the cluster"


@dataclass(frozen=True, slots=True)
class Right:
    """One right. `operation`: Kafka's name, or two names joined by `and`. `note`: an alternative."""

    operation: str
    resource: Resource
    name: str = ""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource.value} {self.name}".rstrip() + (
            f" ({self.note})" if self.note else ""
        )

    def grant(self, user: str) -> str:
        """The advice at the end of a line."""
        return f"grant {self} to {user}"


IDEMPOTENT_WRITE: Final = Right("IDEMPOTENT_WRITE", Resource.CLUSTER, note="since Kafka 2.8 WRITE on any topic does")


def on_topic(operation: str, topic: str) -> Right:
    """A right to a topic."""
    return Right(operation, Resource.TOPIC, topic)


def to_create(topic: str) -> Right:
    """The right to create a topic. A broker hides from a user without rights whether the topic exists."""
    return Right("CREATE", Resource.TOPIC, topic, "or on the cluster; if it exists, DESCRIBE on it")


def on_group(operation: str, group: str) -> Right:
    """A right to a consumer group, or a group of workers."""
    return Right(operation, Resource.GROUP, group)


def on_transactional_id(name: str) -> Right:
    """The right of a producer with a transactional id."""
    return Right("WRITE and DESCRIBE", Resource.TRANSACTIONAL_ID, name)


def on_cluster(operation: str) -> Right:
    """A right to the cluster as a whole."""
    return Right(operation, Resource.CLUSTER)


class MissingRight(NotAuthorized):
    """A broker refused something because a right is missing. `what`: what it refused, and the cluster."""

    def __init__(self, what: str, right: Right, user: str) -> None:
        super().__init__(f"{what}: {right.grant(user)}")
        self.what = what
        self.right = right
        self.user = user
