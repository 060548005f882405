"""Plans a connector: reads both clusters, decides as the connector itself would, and writes nothing.

What blocks runs in two threads of its own, and a plan has a time limit. So a cluster that does not answer delays other
plans, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from mirror_connect.app.planning.groups import positions
from mirror_connect.app.planning.internal import planned_internal_topics
from mirror_connect.app.planning.plan import (
    Action,
    ConfigDifference,
    Plan,
    PlannedTasks,
    Refusal,
    Side,
)
from mirror_connect.app.planning.source import plan_source, with_amounts
from mirror_connect.app.storage.offsets import SourceOffsetStore
from mirror_connect.app.worker_connectors.empty_selections import nothing_translated
from mirror_connect.app.worker_connectors.internal_topics import checkpoints_topic, heartbeats_topic
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.source_groups import groups_to_assign, see_groups
from mirror_connect.app.worker_connectors.source_positions import stored_source_offsets
from mirror_connect.app.worker_connectors.target_choice import OFFSETS_TOPIC, Target, TargetChooser
from mirror_connect.connectors import MirrorCheckpoint, MirrorHeartbeat, MirrorSource, connector_definition
from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import (
    assign_groups,
    assigned_groups,
    checkpoint_selection,
    is_active,
    sync_interval_s,
)
from mirror_connect.connectors.mirror.mirror_heartbeat import task_configs
from mirror_connect.connectors.mirror.mirror_source import REMOVE_ACLS
from mirror_connect.connectors.mirror.settings import admin_timeout_s, client_id, required_source_admin
from mirror_connect.connectors.records.copied_acls import copied_acls
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.connectors.secrets import HIDDEN, is_secret, resolved_secrets
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

T = TypeVar("T")

# One call to a cluster: people wait for the answer.
CALL_S: Final = 15.0
# All of it. A client of REST gives up after 90 s or later.
PLAN_S: Final = 75.0
THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class Existing:
    """The connector of the same name: its config as written, and its stored task configs."""

    config: Mapping[str, str]
    tasks: Sequence[Mapping[str, str]]


class Planner:
    """See the module. `offsets_topic`: the name of the worker's; empty if its source offsets are in a file.

    `others`: what other connectors of these workers copy.
    """

    def __init__(
        self,
        targets: TargetChooser,
        offsets_of: Callable[[Mapping[str, str]], Awaitable[SourceOffsetStore]],
        offsets_topic: str,
        others: OtherCopies,
    ) -> None:
        self._others = others
        self._targets = targets
        self._offsets_of = offsets_of
        self._offsets_topic = offsets_topic
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="plans")

    async def plan(
        self,
        raw: Mapping[str, str],
        resolved: Mapping[str, str],
        existing: Existing | None = None,
        speed: float | None = None,
    ) -> Plan:
        """Of a valid config; `speed`: bytes per second, for the time.

        ClusterUnreachable, NotAuthorized, AdminError, ConfigError.
        """
        try:
            async with asyncio.timeout(PLAN_S):
                plan = await self._plan(raw, resolved, existing, speed)
        except TimeoutError:
            raise ClusterUnreachable(
                f"The plan was not ready within {PLAN_S:g} s: a cluster is slow, or other plans are under way"
            ) from None
        return plan.without(resolved_secrets(raw, resolved))

    async def _plan(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], existing: Existing | None, speed: float | None
    ) -> Plan:
        definition = connector_definition(resolved["connector.class"])
        settings = definition.settings(resolved, raw)
        tasks = existing.tasks if existing is not None else ()
        plan = Plan(
            raw.get("name", ""),
            definition.class_name,
            existing is not None,
            config=() if existing is None else _differences(existing.config, raw),
        )
        if not _works(settings, definition):
            plan = replace(plan, remarks=["its settings say that it does nothing: it gets no tasks"])
            return replace(plan, tasks=PlannedTasks(len(tasks), 0))
        chosen = await self._targets.chosen(resolved)
        timeout = min(admin_timeout_s(settings), CALL_S)
        target_name = f"target cluster {settings.text('target.cluster.alias')}"
        target = await self._in_thread(lambda: ClusterAdmin(chosen.admin, target_name, timeout, user=TARGET_USER))
        target_id = await self._in_thread(target.cluster_id)
        plan = replace(plan, target=Side(settings.text("target.cluster.alias"), target_id, chosen.own))
        if isinstance(definition, MirrorHeartbeat):
            return await self._in_thread(lambda: _heartbeat(plan, settings, target, raw, len(tasks)))
        source_name = f"source cluster {settings.text('source.cluster.alias')}"
        source = await self._in_thread(
            lambda: ClusterAdmin(required_source_admin(settings.originals), source_name, timeout, user=SOURCE_USER)
        )
        source_id = await self._in_thread(source.cluster_id)
        plan = replace(plan, source=Side(settings.text("source.cluster.alias"), source_id))
        if source_id == target_id:
            plan = replace(plan, remarks=["source and target are the same cluster"])
        if isinstance(definition, MirrorCheckpoint):
            return await self._in_thread(lambda: _checkpoint(plan, settings, chosen, target, tasks, timeout))
        store = await self._store(resolved, chosen, target)
        acls = await _stored_acls(store, settings)
        planned = await self._in_thread(
            lambda: plan_source(plan, settings, chosen, (source, target), tasks=tasks, acls=acls)
        )
        alias, name = settings.text("source.cluster.alias"), plan.name
        stored = await stored_source_offsets(store, name, alias, planned.partitions)
        plan = await self._with_others(planned.plan, raw)
        return await self._in_thread(lambda: with_amounts(plan, settings, stored, speed, timeout))

    async def _with_others(self, plan: Plan, config: Mapping[str, str]) -> Plan:
        links = {each.topic: each.remote_topic for each in plan.topics if each.action is not Action.REFUSED}
        lines = await self._others.lines(plan.name, config, links)
        return replace(plan, remarks=[*plan.remarks, *lines])

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _store(
        self, resolved: Mapping[str, str], target: Target, admin: ClusterAdmin
    ) -> SourceOffsetStore | None:
        """Where the connector's source offsets are; None if that topic does not exist: to open it would create it."""
        if target.own and not target.offsets_topic:
            return await self._offsets_of(resolved)
        there = await self._in_thread(admin.topics)
        if not target.own and self._offsets_topic not in there:
            return None
        if target.offsets_topic and target.offsets_topic not in there:
            resolved = {name: value for name, value in resolved.items() if name != OFFSETS_TOPIC}
        return await self._offsets_of(resolved)


def _works(settings: Settings, definition: object) -> bool:
    if isinstance(definition, MirrorHeartbeat):
        return bool(task_configs({}, settings))
    if isinstance(definition, MirrorCheckpoint):
        return is_active(settings)
    assert isinstance(definition, MirrorSource)
    return settings.boolean("enabled")


async def _stored_acls(store: SourceOffsetStore | None, settings: Settings) -> dict[AclBinding, set[AclBinding]]:
    if store is None or not settings.boolean(REMOVE_ACLS):
        return {}
    notes = await store.notes(settings.originals.get("name", ""))
    return {copy: of for note in notes for copy, of in copied_acls(note.partition, note.offset).items()}


def _heartbeat(plan: Plan, settings: Settings, target: ClusterAdmin, raw: Mapping[str, str], before: int) -> Plan:
    internal = planned_internal_topics([heartbeats_topic(settings)], {"target": target})
    return replace(
        plan,
        internal_topics=internal,
        tasks=PlannedTasks(before, len(task_configs(raw, settings))),
        refused=[Refusal(each.topic, each.line or "") for each in internal if each.action is Action.REFUSED],
    )


def _checkpoint(  # noqa: PLR0917 — all that is known of it
    plan: Plan,
    settings: Settings,
    chosen: Target,
    target: ClusterAdmin,
    tasks: Sequence[Mapping[str, str]],
    timeout: float,
) -> Plan:
    internal = planned_internal_topics([checkpoints_topic(settings)], {"target": target})
    properties = required_source_admin(settings.originals)
    selection = checkpoint_selection(settings)
    identity = client_id(settings.originals, "plan", configured=properties.get("client.id"))
    seen = see_groups(properties, identity, selection, timeout)
    previous = [assigned_groups(task) for task in tasks]
    was = {group: task for task, groups in enumerate(previous) for group in groups}
    wanted = groups_to_assign(seen, was)
    then = assign_groups(wanted, settings.integer("tasks.max"))
    will = {group: task for task, groups in enumerate(then) for group in groups}
    found = positions(settings, chosen, wanted, was, timeout)
    nothing = nothing_translated(settings, selection, seen)
    remarks = [*plan.remarks, *found.remarks, *([nothing] if nothing else [])]
    if sync_interval_s(settings) is None:
        remarks.append(
            "sync.group.offsets.enabled=false: groups get checkpoints, and no offsets are committed for them"
        )
    remarks += [
        f"group {group} is not translated: it is a {kind} group, not a consumer group"
        for group, kind in sorted(seen.untranslatable.items())
    ]
    return replace(
        plan,
        internal_topics=internal,
        groups=found.groups,
        not_selected=sum(not selection.accepts_group(group) for group in seen.listed),
        tasks=PlannedTasks(
            len(previous),
            len(then),
            sum(was[group] != task for group, task in will.items() if group in was),
            len(will.keys() - was.keys()),
            sorted(was.keys() - will.keys()),
        ),
        refused=[
            *(Refusal(each.topic, each.line or "") for each in internal if each.action is Action.REFUSED),
            *(Refusal(group, f"group {group} can't be read: {why}") for group, why in sorted(seen.unreadable.items())),
        ],
        remarks=remarks,
    )


def _differences(now: Mapping[str, str], then: Mapping[str, str]) -> list[ConfigDifference]:
    def shown(name: str, value: str | None) -> str | None:
        return HIDDEN if value is not None and is_secret(name) else value

    return [
        ConfigDifference(name, shown(name, now.get(name)), shown(name, then.get(name)))
        for name in sorted(now.keys() | then.keys())
        if now.get(name) != then.get(name)
    ]
