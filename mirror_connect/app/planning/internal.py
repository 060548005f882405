"""Which of a connector's internal topics would be created (app/worker_connectors/internal_topics.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.planning.plan import Action, PlannedInternalTopic
from mirror_connect.app.worker_connectors.internal_topics import Creation, InternalTopic, create_internal_topic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


def planned_internal_topics(
    wanted: Sequence[InternalTopic], clusters: Mapping[str, ClusterAdmin]
) -> list[PlannedInternalTopic]:
    """Blocking: the brokers check each topic that would be created. `clusters`: by "source" and "target"."""
    return [
        planned_internal_topic(
            each, create_internal_topic(clusters[each.cluster], each.name, each.replicas, validate_only=True)
        )
        for each in wanted
    ]


def planned_internal_topic(wanted: InternalTopic, made: Creation) -> PlannedInternalTopic:
    """The line of a plan. `made`: what the brokers have said."""
    if made.refused is not None:
        return PlannedInternalTopic(wanted.name, wanted.cluster, Action.REFUSED, line=made.refused)
    if made.replicas is None:
        return PlannedInternalTopic(wanted.name, wanted.cluster, Action.KEEP, line=made.left_to_others)
    return PlannedInternalTopic(wanted.name, wanted.cluster, Action.CREATE, made.replicas)
