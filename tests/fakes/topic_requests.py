"""An admin client's requests about many topics, taken apart for a fake that knows one topic at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import NewPartitions, NewTopic

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class TopicRequests:
    """ClusterAdmin.each with a client that calls `create_topic` and `grow_topic`; what these raise is the topic's answer."""

    requests = 0
    # How many of them only validated.
    validations = 0

    def create_topic(self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """One topic."""
        raise NotImplementedError

    def grow_topic(self, topic: str, total: int) -> None:
        """One topic."""
        raise NotImplementedError

    def each(
        self, ask: Callable[[Any, float], Mapping[Any, Future[Any]]], what: object, right: object
    ) -> dict[Any, Any]:
        """As ClusterAdmin has it."""
        del what, right
        self.requests += 1
        found: dict[Any, Any] = {}
        for thing, future in ask(self, 1.0).items():
            try:
                found[thing] = future.result()
            except (AdminError, NotAuthorized) as error:
                found[thing] = error
        return found

    def create_topics(
        self, new: Sequence[NewTopic], *, validate_only: bool = False, **_: float
    ) -> dict[str, Future[None]]:
        """As librdkafka's client has it."""
        if validate_only:
            self.validations += 1
            return {each.topic: _answered(lambda: None) for each in new}
        return {
            each.topic: _answered(
                self.create_topic, each.topic, each.num_partitions, each.replication_factor, each.config
            )
            for each in new
        }

    def create_partitions(
        self, new: Sequence[NewPartitions], *, validate_only: bool = False, **_: float
    ) -> dict[str, Future[None]]:
        """As librdkafka's client has it."""
        if validate_only:
            self.validations += 1
            return {each.topic: _answered(lambda: None) for each in new}
        return {each.topic: _answered(self.grow_topic, each.topic, each.new_total_count) for each in new}


def _answered(do: Callable[..., None], *arguments: object) -> Future[None]:
    future: Future[None] = Future()
    try:
        future.set_result(do(*arguments))
    except Exception as error:  # noqa: BLE001 - it is the answer
        future.set_exception(error)
    return future
