"""The topics in which a source connector's tasks say where records came to lie: offset syncs, and runs of offsets.

Syncs are where `offset-syncs.topic.location` says, runs always on the target (docs/decisions/0010).
"""

from __future__ import annotations

from typing import Final

from mirror_connect.app.worker_connectors.internal_topics import make_internal_topic
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.records.offset_syncs import offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.translation.offset_runs import offset_runs_topic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

REPLICAS: Final = "offset-syncs.topic.replication.factor"


def make_mapping_topics(settings: Settings, source: ClusterAdmin, target: ClusterAdmin) -> list[str]:
    """Creates both unless they exist; blocking. One line for each that was refused for a reason that may pass.

    ClusterUnreachable; NotAuthorized for credentials. Nothing with emit.offset-syncs.enabled=false, as in MirrorMaker.
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
        make_internal_topic(target, connector, offset_runs_topic(policy, alias), REPLICAS, replicas),
    ]
    return [line for line in lines if line is not None]
