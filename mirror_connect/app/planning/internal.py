"""Which of a connector's internal topics would be created (app/worker_connectors/internal_topics.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.planning.plan import Action, PlannedInternalTopic
from mirror_connect.app.worker_connectors.internal_topics import InternalTopic, create_internal_topic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin


def planned_internal_topics(
    wanted: Sequence[InternalTopic], clusters: Mapping[str, ClusterAdmin]
) -> list[PlannedInternalTopic]:
    """Blocking: the brokers check each topic that would be created. `clusters`: by "source" and "target"."""
    planned = []
    for each in wanted:
        made = create_internal_topic(clusters[each.cluster], each.name, each.replicas, validate_only=True)
        if made.refused is not None:
            planned.append(PlannedInternalTopic(each.name, each.cluster, Action.REFUSED, line=made.refused))
        elif made.replicas is None:
            planned.append(PlannedInternalTopic(each.name, each.cluster, Action.KEEP, line=made.left_to_others))
        else:
            planned.append(PlannedInternalTopic(each.name, each.cluster, Action.CREATE, made.replicas))
    return planned
