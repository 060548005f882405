"""Creates or checks an internal topic of the worker by its settings, as Kafka Connect does.

It creates an absent topic, compacted. It never changes a topic that exists, but refuses it if the worker would lose data in
it. The texts of these refusals are Connect's. See docs/internal-formats.md, section 2.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from mirror_connect.connectors.errors import ConfigError, NotAuthorized
from mirror_connect.connectors.rights import on_topic, to_create
from mirror_connect.kafka_io.admin.all_topics import all_topics

if TYPE_CHECKING:
    from mirror_connect.kafka_io.consumer.log_clients import LogClients

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 3.0
_LATER: Final = 0.25
# A new topic usually appears within some milliseconds.
_SOON: Final = 0.02


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What the worker demands of one internal topic.

    `prefix` of the worker settings for it ("config.storage": …`.topic`, `.partitions`, `.replication.factor`).
    `partitions` and `replication_factor` are used at creation only; -1 means the broker's default.
    `settings` are further topic configs for the creation; `cleanup.policy` among them is overridden.
    """

    name: str
    prefix: str
    purpose: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str] = field(default_factory=dict)
    single_partition: bool = False

    @classmethod
    def for_configs(
        cls, name: str, replication_factor: int = 3, settings: Mapping[str, str] | None = None
    ) -> TopicPlan:
        """The config topic: always one partition, because the order of all its records counts."""
        purpose = "connector configurations"
        return cls(name, "config.storage", purpose, 1, replication_factor, settings or {}, single_partition=True)

    @classmethod
    def for_offsets(
        cls, name: str, partitions: int = 25, replication_factor: int = 3, settings: Mapping[str, str] | None = None
    ) -> TopicPlan:
        """The offset topic."""
        return cls(name, "offset.storage", "source connector offsets", partitions, replication_factor, settings or {})

    @classmethod
    def for_statuses(
        cls, name: str, partitions: int = 5, replication_factor: int = 3, settings: Mapping[str, str] | None = None
    ) -> TopicPlan:
        """The status topic."""
        purpose = "connector and task statuses"
        return cls(name, "status.storage", purpose, partitions, replication_factor, settings or {})


def ensure_topic(clients: LogClients, plan: TopicPlan, timeout: float) -> int:
    """Creates the topic if it is absent, else checks it; returns its partition count. Blocks up to `timeout` seconds.

    Raises ConfigError (the settings are impossible, or the topic is unfit), ClusterUnreachable, NotAuthorized.
    """
    deadline = time.monotonic() + timeout
    # The producer connects by itself, and reports why a cluster can't be reached sooner than requests time out.
    clients.warm_up()
    created = hidden = False
    pause = _SOON
    while True:
        try:
            count = _partition_count(clients, plan)
            if count:
                break
            if not created:
                created = _create(clients, plan)
                hidden = not created
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            if not error.retriable() and error.code() > 0:
                raise clients.explained(f"topic {plan.name} was not created", error, to_create(plan.name)) from None
            explained = clients.explained(f"topic {plan.name}: no broker answers", error, to_create(plan.name))
            if time.monotonic() + _LATER > deadline or isinstance(explained, NotAuthorized):
                raise explained from None
        if time.monotonic() > deadline:
            if hidden and not _is_late(clients, plan):
                denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                raise clients.denied(
                    f"topic {plan.name} exists, but is not shown", denied, on_topic("DESCRIBE", plan.name)
                )
            raise clients.unreachable(f"topic {plan.name} did not appear within {timeout:g} s")
        time.sleep(pause)
        pause = min(2 * pause, _LATER)
    if not created:
        _check(clients, plan, count)
    return count


def _partition_count(clients: LogClients, plan: TopicPlan) -> int:
    """The topic's number of partitions, 0 if it does not exist. This request never creates it."""
    found = _answer(clients, all_topics(clients.admin, _ANSWER_SECONDS)).topics.get(plan.name)
    return 0 if found is None else len(found.partitions)


def _is_late(clients: LogClients, plan: TopicPlan) -> bool:
    """Whether a topic that exists, as the controller says, is not known to the broker yet, or the broker is too busy to say.

    A broker hides the topics that a user may not see, and answers metadata without them. It does not hide which right to
    their configs is missing.
    """
    try:
        _described(clients, plan)
    except KafkaException as problem:
        error: KafkaError = problem.args[0]
        # Those below 0 are the client's own: no answer came.
        return bool(error.retriable() or error.code() < 0 or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
    return False


def _create(clients: LogClients, plan: TopicPlan) -> bool:
    """Creates the topic; False if it exists, as another worker was quicker."""
    # As in Kafka Connect: only compaction keeps the last value of each key for ever, so nothing may override it.
    settings = {**plan.settings, "cleanup.policy": "compact"}
    topic = NewTopic(plan.name, plan.partitions, plan.replication_factor, config=settings)
    try:
        _answer(clients, clients.admin.create_topics([topic], request_timeout=_ANSWER_SECONDS)[plan.name])
    except KafkaException as problem:
        error: KafkaError = problem.args[0]
        match error.code():
            case KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            case KafkaError.INVALID_REPLICATION_FACTOR:
                raise _too_few_brokers(plan, error) from None
            case KafkaError.INVALID_PARTITIONS:
                name = f"{plan.prefix}.partitions"
                raise ConfigError(name, str(plan.partitions), _refused(plan, error)) from None
            case KafkaError.INVALID_CONFIG:
                raise ConfigError(f"{plan.prefix}.*", None, _refused(plan, error)) from None
        raise
    log.info("Created topic %s for %s", plan.name, plan.purpose)
    return True


def _check(clients: LogClients, plan: TopicPlan, partitions: int) -> None:
    prop = f"{plan.prefix}.topic"
    policies = _cleanup_policies(clients, plan)
    if policies and policies != ["compact"]:
        found = ",".join(policies)
        raise ConfigError(
            prop,
            plan.name,
            f"Topic '{plan.name}' supplied via the '{prop}' property is required to have 'cleanup.policy=compact' to "
            f"guarantee consistency and durability of {plan.purpose}, but found the topic currently has "
            f"'cleanup.policy={found}'. Continuing would likely result in eventually losing {plan.purpose} and problems "
            f"restarting this Connect cluster in the future. Change the '{prop}' property in the Connect worker "
            f"configurations to use a topic with 'cleanup.policy=compact'.",
        )
    if plan.single_partition and partitions != 1:
        raise ConfigError(
            prop,
            plan.name,
            f"Topic '{plan.name}' supplied via the '{prop}' property is required to have a single partition in order "
            f"to guarantee consistency of {plan.purpose}, but found {partitions} partitions.",
        )


def _described(clients: LogClients, plan: TopicPlan) -> Any:
    resource = ConfigResource(ResourceType.TOPIC, plan.name)
    return _answer(clients, clients.admin.describe_configs([resource], request_timeout=_ANSWER_SECONDS)[resource])


def _cleanup_policies(clients: LogClients, plan: TopicPlan) -> list[str]:
    try:
        settings = _described(clients, plan)
    except KafkaException as problem:
        # Connect continues too: reading a topic's configs needs another right.
        log.info("Topic %s: its cleanup.policy could not be checked: %s", plan.name, problem.args[0].str())
        return []
    return sorted(policy.strip() for policy in settings["cleanup.policy"].value.split(",") if policy.strip())


def _too_few_brokers(plan: TopicPlan, error: KafkaError) -> ConfigError:
    name = f"{plan.prefix}.replication.factor"
    return ConfigError(
        name,
        str(plan.replication_factor),
        f"{_refused(plan, error)} Set {name} to at most the number of brokers, or to -1 for the brokers' default.",
    )


def _refused(plan: TopicPlan, error: KafkaError) -> str:
    return f"topic {plan.name} can't be created: {error.str().rstrip('.')}."


def _answer(clients: LogClients, future: Future[Any]) -> Any:
    """The future's result, within twice the request's time limit. NotAuthorized as soon as a login is refused."""
    for _ in range(int(2 * _ANSWER_SECONDS / _LATER)):
        with contextlib.suppress(TimeoutError):
            return future.result(timeout=_LATER)
        if refusal := clients.refused_login():
            raise refusal
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
