"""MirrorCheckpointConnector in the worker: creates the checkpoints topic, and assigns the source's groups to tasks.

Groups are listed at an interval. If one can't be read, the others are still translated: it stays assigned, the status
names it, and the next refresh comes soon. (In MirrorMaker the whole refresh fails.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.app.worker_connectors.empty_selections import nothing_translated
from mirror_connect.app.worker_connectors.internal_topics import checkpoints_topic, make_internal_topic
from mirror_connect.app.worker_connectors.scheduler import RefreshScheduler
from mirror_connect.app.worker_connectors.source_groups import SeenGroups, groups_to_assign, see_groups
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.mirror_checkpoint import (
    assign_groups,
    checkpoint_selection,
    is_active,
    task_configs,
)
from mirror_connect.connectors.mirror.settings import admin_timeout_s, client_id, required_source_admin
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)

NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one refresh, and its problems; `nothing`: why there is no group."""

    groups: SeenGroups
    problems: Sequence[Problem]
    nothing: str | None = None


class MirrorCheckpointConnector:
    """See the module. Task configs are made from `raw`; `settings` are resolved; `previous`: groups assigned before."""

    def __init__(
        self,
        raw: Mapping[str, str],
        settings: Settings,
        targets: TargetChooser,
        context: ConnectorContext,
        *,
        previous: Sequence[str] = (),
    ) -> None:
        self._raw = raw
        self._settings = settings
        self._targets = targets
        self._context = context
        self._selection = checkpoint_selection(settings)
        self._assigned: Sequence[str] = previous
        self._named: set[str] = set()
        self._nothing: str | None = None
        self._topic_made = False
        self._source: ClusterAdmin | None = None
        refreshes = settings.boolean("refresh.groups.enabled")
        every_s = float(settings.integer("refresh.groups.interval.seconds")) if refreshes else 0.0
        self._scheduler = RefreshScheduler(context, self._refresh, self._assign, every_s)

    def start(self) -> None:
        """Begins to refresh, in the background."""
        if is_active(self._settings):
            self._scheduler.start()
        else:
            self._context.started()
            self._context.request_task_reconfiguration([])

    async def stop(self) -> None:
        """Ends it. A Kafka call in progress ends by its own time limit; its result is ignored."""
        await self._scheduler.stop()

    def _assign(self, found: Found) -> None:
        seen = found.groups
        self._name_others(seen.untranslatable)
        if found.nothing is not None and self._nothing is None:
            # A cluster without groups is usually new, and nothing is wrong with it.
            level = logging.WARNING if seen.listed else logging.INFO
            log.log(level, "Connector %s: %s", ConnectorName(self._context.name), found.nothing)
        self._nothing = found.nothing
        gone = [group for group in self._assigned if group not in seen.listed]
        if gone:
            log.warning(
                "Connector %s: %s gone from the source; what was translated for %s stays on the target: %s",
                ConnectorName(self._context.name),
                "a group is" if len(gone) == 1 else f"{len(gone)} groups are",
                "it" if len(gone) == 1 else "them",
                _names(gone),
            )
        self._assigned = groups_to_assign(seen, self._assigned)
        assigned = assign_groups(self._assigned, self._settings.integer("tasks.max"))
        self._context.request_task_reconfiguration(task_configs(self._raw, assigned))

    def _name_others(self, others: Mapping[str, str]) -> None:
        for kind in sorted(set(others.values())):
            names = sorted(group for group, its in others.items() if its == kind and group not in self._named)
            if names:
                self._named.update(names)
                log.warning(
                    "Connector %s: no offsets of %s groups are translated, as they are not those of a consumer group: %s",
                    ConnectorName(self._context.name),
                    kind,
                    _names(names),
                )

    # In the scheduler's thread.

    def _refresh(self) -> Found:
        settings = self._settings
        timeout = admin_timeout_s(settings)
        problems = [] if self._topic_made else self._make_topic(timeout)
        properties = required_source_admin(settings.originals)
        if self._source is None:
            what = f"source cluster {settings.text('source.cluster.alias')}"
            self._source = ClusterAdmin(properties, what, timeout, user=SOURCE_USER)
        # librdkafka explains better than our own connections why a cluster can't be reached, or refuses.
        self._source.cluster_id()
        identity = client_id(settings.originals, "checkpoint-source-admin", configured=properties.get("client.id"))
        seen = see_groups(properties, identity, self._selection, timeout)
        problems += [
            Problem(group, ProblemCode.GROUP_UNREADABLE, f"group {group} can't be read", why)
            for group, why in sorted(seen.unreadable.items())
        ]
        return Found(seen, problems, nothing_translated(settings, self._selection, seen))

    def _make_topic(self, timeout: float) -> list[Problem]:
        settings = self._settings
        what = f"target cluster {settings.text('target.cluster.alias')}"
        admin = ClusterAdmin(self._targets.choose(settings.originals, timeout).admin, what, timeout, user=TARGET_USER)
        topic = checkpoints_topic(settings)
        refused = make_internal_topic(admin, self._context.name, topic.name, topic.setting, topic.replicas)
        self._topic_made = refused is None
        return [Problem(topic.name, ProblemCode.TOPIC_NOT_CREATED, refused)] if refused else []


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - NAMES_SHOWN
    return ", ".join(groups[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
