"""Creates the mirror connectors' own topics (heartbeats, checkpoints …) if absent: one partition, compacted.

As in MirrorMaker 2, an existing topic stays as it is. Without the right to create a topic, the connector assumes that
somebody else creates it. Unlike there, a cluster with fewer brokers than the replication factor gets one replica per broker.
"""

from __future__ import annotations

import logging
from typing import Final

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import NotAuthorized
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


def make_internal_topic(admin: ClusterAdmin, connector: str, topic: str, setting: str, replicas: int) -> str | None:
    """Creates the topic unless it exists; blocking. `setting`: the name of the setting of `replicas`.

    Returns one line if it was refused for a reason that may pass or that the user can fix. ClusterUnreachable;
    NotAuthorized only for credentials.
    """
    admin.cluster_id()
    try:
        try:
            admin.create_topic(topic, 1, replicas, _CONFIGS)
        except AdminError as error:
            if error.code != INVALID_REPLICATION_FACTOR:
                raise
            fewer = admin.broker_count()
            if not 0 < fewer < replicas:
                raise
            admin.create_topic(topic, 1, fewer, _CONFIGS)
            log.warning(
                "Connector %s: topic %s is created with %d replica%s instead of %d (%s): the cluster has no more brokers",
                connector,
                topic,
                fewer,
                "" if fewer == 1 else "s",
                replicas,
                setting,
            )
            return None
    except AdminError as error:
        return None if error.code in (TOPIC_ALREADY_EXISTS, UNSUPPORTED_VERSION) else str(error)
    except NotAuthorized as error:
        log.info("Connector %s: topic %s is not created, as others may create it: %s", connector, topic, error)
        return None
    log.info("Connector %s: created topic %s", connector, topic)
    return None


REPLICAS: Final = "offset-syncs.topic.replication.factor"


def make_mapping_topics(settings: Settings, source: ClusterAdmin, target: ClusterAdmin) -> list[str]:
    """Creates both unless they exist; blocking. One line for each refusal that may pass.

    ClusterUnreachable; NotAuthorized for credentials. With emit.offset-syncs.enabled=false it creates none, as MirrorMaker.
    """
    if not settings.boolean("emit.offset-syncs.enabled"):
        return []
    connector, replicas = settings.originals.get("name", ""), settings.integer(REPLICAS)
    policy, alias = replication_policy(settings.originals), settings.text("source.cluster.alias")
    place = offset_syncs_place(
        policy, settings.text("offset-syncs.topic.location"), alias, settings.text("target.cluster.alias")
    )
    syncs_admin = source if place.cluster == "source" else target
    lines = [
        make_internal_topic(syncs_admin, connector, place.topic, REPLICAS, replicas),
        make_internal_topic(target, connector, offset_ranges_topic(policy, alias), REPLICAS, replicas),
    ]
    return [line for line in lines if line is not None]
