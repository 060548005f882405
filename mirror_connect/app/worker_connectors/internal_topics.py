"""The mirror connectors' own topics (heartbeats, checkpoints …): made if absent, one partition, compacted.

As in MirrorMaker 2 a topic that exists is left as it is, and one that may not be created is taken for one that somebody
else creates. Unlike there, a cluster with fewer brokers than the replication factor gets as many replicas as it can hold.
"""

from __future__ import annotations

import logging
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin

log = logging.getLogger(__name__)

UNSUPPORTED_VERSION: Final = 35
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
_CONFIGS: Final = {"cleanup.policy": "compact"}


def make_internal_topic(admin: ClusterAdmin, connector: str, topic: str, setting: str, replicas: int) -> str | None:
    """Creates the topic unless it exists; blocking. `setting` is what `replicas` comes from.

    Returns one line if it was refused for a reason that may pass or be mended. ClusterUnreachable; NotAuthorized only for
    credentials.
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
        log.info("Connector %s: topic %s is left to others to create: %s", connector, topic, error)
        return None
    log.info("Connector %s: created topic %s", connector, topic)
    return None
