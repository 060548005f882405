"""Creates the dead letter topic of a source connector if it is not there: one partition, the brokers' configs.

As in Kafka Connect, an existing topic stays as it is, and a connector whose topic can't be created fails. There the task
does so, here the connector, before any task. Else a task would stop at the first record that can't be transformed, perhaps
months later.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from mirror_connect.app.worker_connectors.internal_topics import (
    INVALID_REPLICATION_FACTOR,
    TOPIC_ALREADY_EXISTS,
    Creation,
)
from mirror_connect.connectors.errors import ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.dead_letters import REPLICAS, TOPIC, DeadLetterTopic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError

log = logging.getLogger(__name__)

INVALID_TOPIC: Final = 17
POLICY_VIOLATION: Final = 44


def make_dead_letter_topic(
    admin: ClusterAdmin, connector: str, topic: DeadLetterTopic, existing: Collection[str], reserved: Collection[str]
) -> None:
    """Blocking. `existing`: topics of the target. `reserved`: those that are the worker's.

    ConfigError if it can't be; AdminError, ClusterUnreachable, NotAuthorized.
    """
    check_name(topic, reserved)
    if topic.name in existing:
        return
    try:
        admin.create_topic(topic.name, 1, topic.replicas)
    except AdminError as error:
        if error.code == TOPIC_ALREADY_EXISTS:
            return
        if error.code == INVALID_REPLICATION_FACTOR:
            raise ConfigError(
                REPLICAS, str(topic.replicas), f"{error}. Set it to the target's number of brokers"
            ) from None
        if error.code in (INVALID_TOPIC, POLICY_VIOLATION):
            raise ConfigError(TOPIC, topic.name, str(error)) from None
        raise
    log.info("Connector %s: created topic %s for dead letters", ConnectorName(connector), topic.name)


def planned_dead_letter_topic(admin: ClusterAdmin, topic: DeadLetterTopic, existing: Collection[str]) -> Creation:
    """What would be done; blocking, as the brokers check it. ClusterUnreachable; NotAuthorized only for credentials."""
    if topic.name in existing:
        return Creation()
    try:
        admin.create_topic(topic.name, 1, topic.replicas, validate_only=True)
    except AdminError as error:
        return Creation() if error.code == TOPIC_ALREADY_EXISTS else Creation(refused=str(error))
    except NotAuthorized as error:
        return Creation(refused=str(error))
    return Creation(topic.replicas)


def check_name(topic: DeadLetterTopic, reserved: Collection[str]) -> None:
    """ConfigError if it is a topic of the worker's."""
    if topic.name in reserved:
        raise ConfigError(
            TOPIC,
            topic.name,
            "it is a topic of the worker's, whose records are trusted: give the topic a name of its own",
        )
