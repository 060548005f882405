"""Creates the mirror connectors' own topics (heartbeats, checkpoints …) if absent: one partition, compacted.

As in MirrorMaker 2, an existing topic stays as it is. Without the right to create a topic, the connector assumes that
somebody else creates it. Unlike there, a cluster with fewer brokers than the replication factor gets one replica per broker.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Final, Literal

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.records.heartbeats import HEARTBEATS_TOPIC
from mirror_connect.connectors.records.offset_syncs import offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.translation.offset_ranges import offset_ranges_topic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError

log = logging.getLogger(__name__)

UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
_CONFIGS: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Creation:
    """The outcome: the replicas of the new topic, None if none was created; or a line on why it was refused.

    `left_to_others`: why this login can't create it, which others may do.
    """

    replicas: int | None = None
    refused: str | None = None
    left_to_others: str | None = None


def create_internal_topic(admin: ClusterAdmin, topic: str, replicas: int, *, validate_only: bool = False) -> Creation:
    """Creates the topic unless it exists; blocking. `validate_only`: the brokers only check.

    ClusterUnreachable; NotAuthorized only for credentials.
    """
    admin.cluster_id()
    try:
        try:
            admin.create_topic(topic, 1, replicas, _CONFIGS, validate_only=validate_only)
        except AdminError as error:
            if error.code != INVALID_REPLICATION_FACTOR:
                raise
            fewer = admin.broker_count()
            if not 0 < fewer < replicas:
                raise
            admin.create_topic(topic, 1, fewer, _CONFIGS, validate_only=validate_only)
            return Creation(fewer)
    except AdminError as error:
        return Creation() if error.code in (TOPIC_ALREADY_EXISTS, UNSUPPORTED_VERSION) else Creation(refused=str(error))
    except NotAuthorized as error:
        return Creation(left_to_others=str(error))
    return Creation(replicas)


def make_internal_topic(admin: ClusterAdmin, connector: str, topic: str, setting: str, replicas: int) -> str | None:
    """The same, logged. `setting`: the name of the setting of `replicas`.

    Returns one line if it was refused for a reason that may pass or that the user can fix.
    """
    outcome = create_internal_topic(admin, topic, replicas)
    if outcome.left_to_others is not None:
        why = outcome.left_to_others
        log.info(
            "Connector %s: topic %s is not created, as others may create it: %s", ConnectorName(connector), topic, why
        )
    elif outcome.replicas is not None and outcome.replicas != replicas:
        log.warning(
            "Connector %s: topic %s is created with %d replica%s instead of %d (%s): the cluster has no more brokers",
            ConnectorName(connector),
            topic,
            outcome.replicas,
            "" if outcome.replicas == 1 else "s",
            replicas,
            setting,
        )
    elif outcome.replicas is not None:
        log.info("Connector %s: created topic %s", ConnectorName(connector), topic)
    return outcome.refused


REPLICAS: Final = "offset-syncs.topic.replication.factor"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that a connector needs: on the `cluster` source or target. `setting`: the name of the one for `replicas`."""

    cluster: Literal["source", "target"]
    name: str
    setting: str
    replicas: int


def mapping_topics(settings: Settings) -> list[InternalTopic]:
    """Those of a source connector's offset syncs and ranges; none with emit.offset-syncs.enabled=false, as MirrorMaker."""
    if not settings.boolean("emit.offset-syncs.enabled"):
        return []
    replicas = settings.integer(REPLICAS)
    policy, alias = replication_policy(settings.originals), settings.text("source.cluster.alias")
    place = offset_syncs_place(
        policy, settings.text("offset-syncs.topic.location"), alias, settings.text("target.cluster.alias")
    )
    syncs = InternalTopic("source" if place.cluster == "source" else "target", place.topic, REPLICAS, replicas)
    return [syncs, InternalTopic("target", offset_ranges_topic(policy, alias), REPLICAS, replicas)]


def checkpoints_topic(settings: Settings) -> InternalTopic:
    """That of a checkpoint connector."""
    setting = "checkpoints.topic.replication.factor"
    topic = replication_policy(settings.originals).checkpoints_topic(settings.text("source.cluster.alias"))
    return InternalTopic("target", topic, setting, settings.integer(setting))


def heartbeats_topic(settings: Settings) -> InternalTopic:
    """That of a heartbeat connector."""
    setting = "heartbeats.topic.replication.factor"
    return InternalTopic("target", HEARTBEATS_TOPIC, setting, settings.integer(setting))


def make_mapping_topics(settings: Settings, source: ClusterAdmin, target: ClusterAdmin) -> list[str]:
    """Creates both at once unless they exist; blocking. One line for each refusal that may pass.

    ClusterUnreachable; NotAuthorized for credentials.
    """
    connector = settings.originals.get("name", "")

    def make(each: InternalTopic) -> str | None:
        admin = source if each.cluster == "source" else target
        return make_internal_topic(admin, connector, each.name, each.setting, each.replicas)

    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="mapping-topics") as threads:
        making = [threads.submit(copy_context().run, make, each) for each in mapping_topics(settings)]
    return [line for each in making if (line := each.result()) is not None]
