"""Many topics created and grown, in as few requests as a controller takes well.

Blocking, for an executor: each request may take the admin's time limit. A topic that is refused has an error of its own,
and the others go on. ClusterUnreachable ends the whole; what was done stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.rights import Right, on_topic, to_create
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin

# KRaft writes a record for each topic, partition and config, all those of a request at once, and refuses a request of
# 10,000. One topic at a time took 2,000 of them 25 times as long.
RECORDS_AT_ONCE: Final = 1_000
Wanted = TypeVar("Wanted")
Refused = dict[str, AdminError | NotAuthorized]


@dataclass(frozen=True, slots=True)
class NewRemote:
    """A topic to be: -1 for the broker's default of either number."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


def create_topics(admin: ClusterAdmin, wanted: Mapping[str, NewRemote]) -> Refused:
    """Creates topics (name → what it is to be); returns those that were refused."""

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
        futures: Mapping[str, Future[Any]] = client.create_topics(new, operation_timeout=left, request_timeout=left)
        return futures

    return _in_requests(
        admin,
        wanted,
        lambda each: 1 + each.partitions + len(each.configs),
        ask,
        what="topic {} was not created",
        right=to_create,
    )


def grow_topics(admin: ClusterAdmin, totals: Mapping[str, int]) -> Refused:
    """Lets topics grow (name → how many partitions it is to have); returns those that were refused."""

    def ask(client: AdminClient, some: Mapping[str, int], left: float) -> Mapping[str, Future[Any]]:
        new = [NewPartitions(name, total) for name, total in some.items()]
        futures: Mapping[str, Future[Any]] = client.create_partitions(new, operation_timeout=left, request_timeout=left)
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
