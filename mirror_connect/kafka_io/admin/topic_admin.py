"""Creates topics and adds partitions, in as few requests as a controller handles well.

Calls block, so use an executor: each request may take the admin's time limit. If a topic is refused, it gets its own error,
and the others continue. ClusterUnreachable ends the call; topics created before stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.rights import Right, on_topic, to_create
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError

# KRaft writes a record for each topic, partition and config of a request, all at once, and refuses 10,000 records. 2,000
# topics took 25 times as long with one request for each.
RECORDS_AT_ONCE: Final = 1_000
Wanted = TypeVar("Wanted")
Refused = dict[str, AdminError | NotAuthorized]


@dataclass(frozen=True, slots=True)
class NewRemote:
    """A topic to create; -1 for the broker's default of either number."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(admin: ClusterAdmin, wanted: Mapping[str, NewRemote], *, validate_only: bool = False) -> Refused:
    """Creates these topics, by name; returns those that were refused. `validate_only`: the brokers only check."""

    def ask(client: AdminClient, some: Mapping[str, NewRemote], left: float) -> Mapping[str, Future[Any]]:
        new = [
            NewTopic(
                name,
                num_partitions=each.partitions,
                replication_factor=each.replication_factor,
                config=dict(each.configs),
            )
            for name, each in some.items()
        ]
        futures: Mapping[str, Future[Any]] = client.create_topics(
            new, operation_timeout=left, request_timeout=left, validate_only=validate_only
        )
        return futures

    return _in_requests(
        admin,
        wanted,
        lambda each: 1 + each.partitions + len(each.configs),
        ask,
        what="topic {} was not created",
        right=to_create,
    )


def grow_topics(admin: ClusterAdmin, totals: Mapping[str, int], *, validate_only: bool = False) -> Refused:
    """Adds partitions to topics (name → new number of partitions); returns those that were refused.

    `validate_only`: the brokers only check.
    """

    def ask(client: AdminClient, some: Mapping[str, int], left: float) -> Mapping[str, Future[Any]]:
        new = [NewPartitions(name, total) for name, total in some.items()]
        futures: Mapping[str, Future[Any]] = client.create_partitions(
            new, operation_timeout=left, request_timeout=left, validate_only=validate_only
        )
        return futures

    return _in_requests(
        admin,
        totals,
        lambda total: total,
        ask,
        what="topic {} did not get more partitions",
        right=lambda topic: on_topic("ALTER", topic),
    )


def _in_requests(
    admin: ClusterAdmin,
    wanted: Mapping[str, Wanted],
    records: Callable[[Wanted], int],
    ask: Callable[[AdminClient, Mapping[str, Wanted], float], Mapping[str, Future[Any]]],
    *,
    what: str,
    right: Callable[[str], Right],
) -> Refused:
    refused: Refused = {}
    for some in _portions(wanted, records):
        answers = admin.each(
            lambda client, left, some=some: ask(client, some, left),  # type: ignore[misc]
            what.format,
            right,
        )
        refused |= {name: error for name, error in answers.items() if isinstance(error, AdminError | NotAuthorized)}
    return refused


def _portions(wanted: Mapping[str, Wanted], records: Callable[[Wanted], int]) -> Iterator[dict[str, Wanted]]:
    portion: dict[str, Wanted] = {}
    size = 0
    for name, each in wanted.items():
        if portion and size + records(each) > RECORDS_AT_ONCE:
            yield portion
            portion, size = {}, 0
        portion[name] = each
        size += records(each)
    if portion:
        yield portion
