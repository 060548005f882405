"""The plan of a MirrorSourceConnector: topics, configs and ACLs, by the decisions of worker_connectors.

Brokers check what would be created and changed (validate only), so that the plan knows what they would refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror_connect.app.planning.amounts import Amounts, amounts, of_topic, total
from mirror_connect.app.planning.internal import planned_internal_topic, planned_internal_topics
from mirror_connect.app.planning.plan import (
    Action,
    LeftOutTopic,
    Plan,
    PlannedAcls,
    PlannedConfig,
    PlannedTasks,
    PlannedTopic,
    Refusal,
)
from mirror_connect.app.worker_connectors.acl_sync import AclSync, acl_sync_every_s
from mirror_connect.app.worker_connectors.config_sync import ConfigSync, change_configs, config_sync_every_s
from mirror_connect.app.worker_connectors.dead_letter_topic import check_name, planned_dead_letter_topic
from mirror_connect.app.worker_connectors.empty_selections import nothing_copied
from mirror_connect.app.worker_connectors.internal_topics import InternalTopic, mapping_topics
from mirror_connect.app.worker_connectors.remote_topics import Changes, make_changes
from mirror_connect.app.worker_connectors.source_topics import SourceTopics, decide_topics
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.mirror.acl_rules import Copies
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, Assignment, reassign, stored_partitions
from mirror_connect.connectors.mirror.dead_letters import REPLICAS, dead_letter_topic
from mirror_connect.connectors.mirror.filters import LeftOut, TopicSelection
from mirror_connect.connectors.mirror.mirror_source import topic_selection
from mirror_connect.connectors.mirror.settings import client_id, source_consumer
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SourceOffset
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class RememberedAcls:
    """The copied ACLs as stored when the plan began (acl_sync.AclMemory)."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def load(self) -> Copies:
        """See AclMemory."""
        return self._copies

    def save(self, copies: Mapping[Resource, Copies]) -> None:
        """A plan decides only, and nothing that decides saves."""
        raise RuntimeError(f"a plan would have stored the ACLs of {len(copies)} resources")


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The plan without amounts, and the partitions that would be copied."""

    plan: Plan
    partitions: Sequence[TopicPartition]


def plan_source(
    begun: Plan,
    settings: Settings,
    target: Target,
    clusters: tuple[ClusterAdmin, ClusterAdmin],
    *,
    tasks: Sequence[Mapping[str, str]],
    acls: Copies,
) -> SourcePlan:
    """Decides; blocking. `begun`: what is known already; `clusters`: source and target; `tasks`: stored task configs."""
    source, there = clusters
    selection = topic_selection(settings).with_reserved(target.reserved)
    found = source.topics()
    selection.judge(found)
    existing = there.topics()
    configs = ConfigSync(settings)
    previous = [stored_partitions(task.get(ASSIGNED_PARTITIONS, "")) for task in tasks]
    assigned = {partition.topic for task in previous for partition in task}
    one_cluster = (
        begun.source is not None and begun.target is not None and begun.source.cluster_id == begun.target.cluster_id
    )
    topics = decide_topics(
        settings,
        selection,
        configs,
        source,
        existing=existing,
        found=found,
        assigned=assigned,
        one_cluster=one_cluster,
    )
    changes = make_changes(there, topics.changes, validate_only=True)
    partitions = topics.partitions(changes.there)
    internal = planned_internal_topics(mapping_topics(settings), {"source": source, "target": there})
    letters = dead_letter_topic(settings)
    if letters is not None:
        check_name(letters, target.reserved)
        made = planned_dead_letter_topic(there, letters, existing)
        internal.append(planned_internal_topic(InternalTopic("target", letters.name, REPLICAS, letters.replicas), made))
    planned = _topics(topics, changes, assigned)
    topic_configs, unreadable = _configs(settings, configs, clusters, topics)
    bindings, no_acls = _acls(settings, clusters, topics.links(changes.there), target, acls)
    nothing = nothing_copied(settings, selection, found)
    plan = replace(
        begun,
        topics=planned,
        excluded=_left_out(selection, found),
        not_selected=sum(selection.left_out(topic) is LeftOut.NOT_SELECTED for topic in found),
        internal_topics=internal,
        topic_configs=topic_configs,
        acls=bindings,
        tasks=_tasks(previous, partitions, settings),
        refused=[
            *(Refusal(each.topic, each.line or "") for each in internal if each.action is Action.REFUSED),
            *(Refusal(topic, line) for topic, line in sorted({**topics.refused, **changes.refused}.items())),
            *(Refusal(each.remote_topic, each.line) for each in topic_configs if each.line),
            *unreadable,
            *no_acls,
        ],
        remarks=[*begun.remarks, *([nothing] if nothing else [])],
    )
    return SourcePlan(plan, partitions)


def with_amounts(
    plan: Plan, settings: Settings, stored: Sequence[SourceOffset], speed: float | None, timeout: float
) -> Plan:
    """The plan with what is to be copied; blocking. `stored`: the source offset of each partition that would be copied."""
    properties = source_consumer(settings.originals)
    identity = client_id(settings.originals, "plan", configured=properties.get("client.id"))
    # Without partitions there is nothing to wait for.
    found = amounts(properties, identity, stored, timeout) if stored else Amounts({}, 0.0)
    topics = []
    for each in plan.topics:
        records, size = of_topic(found, each.topic) if each.action is not Action.REFUSED else (None, None)
        topics.append(replace(each, records=records, bytes=size))
    return replace(plan, topics=topics, amount=total(found, speed))


def _topics(topics: SourceTopics, changes: Changes, running: set[str]) -> list[PlannedTopic]:
    planned = []
    for topic, remote in topics.remote.items():
        now = topics.changes.existing[remote]
        line = changes.refused.get(remote) or topics.refused.get(topic)
        created = changes.created.get(remote)
        action = Action.KEEP
        if created is not None:
            action = Action.CREATE
        elif remote in changes.grown:
            action = Action.GROW
        elif line is not None:
            action = Action.REFUSED
        planned.append(
            PlannedTopic(
                topic,
                remote,
                action,
                topic in running,
                topics.found[topic],
                now,
                None if created is None else created.replication_factor,
                {} if created is None else dict(created.configs),
                changes.left_out.get(remote, {}),
                line=line,
            )
        )
    return planned


def _left_out(selection: TopicSelection, found: Mapping[str, int]) -> list[LeftOutTopic]:
    """Without those that `topics` does not accept: nobody wonders about them."""
    texts = {
        LeftOut.EXCLUDED: "topics.exclude matches it",
        LeftOut.INTERNAL: "its name is that of an internal topic",
        LeftOut.CYCLE: f"it came from {selection.target_alias}",
    }
    reserved = selection.reserved_topics(found)
    excluded = []
    for topic in sorted(found):
        reason = selection.left_out(topic)
        if reason is None or reason is LeftOut.NOT_SELECTED:
            continue
        line = texts.get(reason) or f"on the target it would be {reserved[topic]}, an internal topic there"
        excluded.append(LeftOutTopic(topic, reason.value, line))
    return excluded


def _configs(
    settings: Settings, configs: ConfigSync, clusters: tuple[ClusterAdmin, ClusterAdmin], topics: SourceTopics
) -> tuple[list[PlannedConfig], list[Refusal]]:
    source, target = clusters
    # New topics get theirs when they are created.
    links = topics.links(topics.changes.existing)
    if config_sync_every_s(settings) <= 0 or not links:
        return [], []
    decided = configs.decide(source, target, links)
    refused = change_configs(target, decided, validate_only=True)
    planned = []
    for topic, steps in sorted(decided.changes.items()):
        now = {config.name: config.value for config in decided.now[topic]}
        planned += [
            PlannedConfig(topic, step.name, now.get(step.name), step.value, refused.get(topic)) for step in steps
        ]
    return planned, [Refusal("topic configs", line) for line in decided.unreadable]


def _acls(
    settings: Settings,
    clusters: tuple[ClusterAdmin, ClusterAdmin],
    links: Mapping[str, str],
    target: Target,
    stored: Mapping[AclBinding, Sequence[AclBinding]] | Copies,
) -> tuple[PlannedAcls, list[Refusal]]:
    if acl_sync_every_s(settings) <= 0:
        return PlannedAcls(), []
    try:
        decided = AclSync(settings, RememberedAcls(stored)).decide(*clusters, links, target.reserved)
    except (NotAuthorized, AdminError) as error:
        return PlannedAcls(), [Refusal("ACLs", f"topic ACLs are not synced: {error}")]
    return PlannedAcls(decided.add, decided.remove, decided.nothing), []


def _tasks(previous: Assignment, partitions: Sequence[TopicPartition], settings: Settings) -> PlannedTasks:
    then = reassign(previous, partitions, settings.integer("tasks.max"))
    was = {partition: task for task, assigned in enumerate(previous) for partition in assigned}
    will = {partition: task for task, assigned in enumerate(then) for partition in assigned}
    return PlannedTasks(
        len(previous),
        len(then),
        sum(was[partition] != task for partition, task in will.items() if partition in was),
        len(will.keys() - was.keys()),
        sorted(str(partition) for partition in was.keys() - will.keys()),
    )
