"""Rights (ACLs) and who needs them: one line says which is missing, wherever a broker refuses something for it.

What each user needs in all, and for what: docs/rights.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized

# Users by their role, as docs/rights.md has them: which settings hold a login.
WORKER_USER: Final = "the worker's user"
PRODUCING_USER: Final = "the producing user"
SOURCE_USER: Final = "the source user"
TARGET_USER: Final = "the target user"


def user_at(side: str) -> str:
    """Of the cluster at that side of a link, source or target."""
    return SOURCE_USER if side == "source" else TARGET_USER


class Resource(Enum):
    """What a right is about, as people say it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    CLUSTER = "the cluster"


@dataclass(frozen=True, slots=True)
class Right:
    """`operation`: as Kafka has it, two of them joined by `and`. `note`: what does as well."""

    operation: str
    resource: Resource
    name: str = ""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource.value} {self.name}".rstrip() + (
            f" ({self.note})" if self.note else ""
        )

    def grant(self, user: str) -> str:
        """What is to be done, for the end of a line."""
        return f"grant {self} to {user}"


IDEMPOTENT_WRITE: Final = Right("IDEMPOTENT_WRITE", Resource.CLUSTER, note="since Kafka 2.8 WRITE on any topic does")


def on_topic(operation: str, topic: str) -> Right:
    """A right to a topic."""
    return Right(operation, Resource.TOPIC, topic)


def to_create(topic: str) -> Right:
    """Brokers say no more to who may neither see nor create it."""
    return Right("CREATE", Resource.TOPIC, topic, "or on the cluster; if it exists, DESCRIBE on it")


def on_group(operation: str, group: str) -> Right:
    """A right to a consumer group, or a group of workers."""
    return Right(operation, Resource.GROUP, group)


def on_transactional_id(name: str) -> Right:
    """What a producer with a transactional id needs."""
    return Right("WRITE and DESCRIBE", Resource.TRANSACTIONAL_ID, name)


def on_cluster(operation: str) -> Right:
    """A right to the cluster as a whole."""
    return Right(operation, Resource.CLUSTER)


class MissingRight(NotAuthorized):
    """A broker refused something for want of a right. `what`: what was refused, and by which cluster."""

    def __init__(self, what: str, right: Right, user: str) -> None:
        super().__init__(f"{what}: {right.grant(user)}")
        self.what = what
        self.right = right
        self.user = user
