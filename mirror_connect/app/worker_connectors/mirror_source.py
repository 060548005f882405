"""MirrorSourceConnector in the worker: which topics to copy, their remote topics, and which task copies what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace

from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.app.worker_connectors.dead_letter_topic import make_dead_letter_topic
from mirror_connect.app.worker_connectors.empty_selections import nothing_copied
from mirror_connect.app.worker_connectors.internal_topics import make_mapping_topics
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.remote_topics import FreshTopics, make_changes
from mirror_connect.app.worker_connectors.sampling_verification import OffsetsOf, SamplingVerification
from mirror_connect.app.worker_connectors.scheduler import RefreshScheduler
from mirror_connect.app.worker_connectors.source_topics import decide_topics
from mirror_connect.app.worker_connectors.stored_acls import StoredAcls
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.app.worker_connectors.topic_syncs import Known, TopicSyncs
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.assignment import Assignment, reassign, task_configs
from mirror_connect.connectors.mirror.dead_letters import dead_letter_topic
from mirror_connect.connectors.mirror.mirror_source import SAMPLING_ENABLED, topic_selection
from mirror_connect.connectors.mirror.routed_policy import RoutedReplicationPolicy
from mirror_connect.connectors.mirror.settings import admin_timeout_s, required_source_admin
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)
RESERVED_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """Task configs are made from `raw`; `settings` are resolved.

    `previous`: the stored assignment; partitions stay where they are if possible.
    """

    raw: Mapping[str, str]
    settings: Settings
    previous: Assignment


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one refresh: the partitions to copy, and the problems with topics.

    `links`: source topic → remote topic, for topics on both clusters. `nothing`: why there is no topic to copy.
    `reserved`: which topics are not copied because their remote topics would be the worker's or MirrorMaker's own.
    """

    partitions: Sequence[TopicPartition]
    problems: Sequence[Problem]
    links: Links
    nothing: str | None
    reserved: str | None


class MirrorSourceConnector:
    """See the module."""

    def __init__(
        self,
        config: ConnectorConfig,
        targets: TargetChooser,
        context: ConnectorContext,
        offsets_of: OffsetsOf,
        others: OtherCopies,
    ) -> None:
        self._config = config
        self._targets = targets
        self._context = context
        self._selection = topic_selection(config.settings)
        self._routed = isinstance(self._selection.policy, RoutedReplicationPolicy)
        self._assignment = config.previous
        self._source: ClusterAdmin | None = None
        self._target: ClusterAdmin | None = None
        self._mapping_topics_made = False
        # None: there is none, or it is there.
        self._letters = dead_letter_topic(config.settings)
        self._worker_topics: Collection[str] = ()
        self._fresh = FreshTopics()
        self._configs = ConfigSync(config.settings)
        settings = config.settings
        refreshes = settings.boolean("refresh.topics.enabled")
        every_s = float(settings.integer("refresh.topics.interval.seconds")) if refreshes else 0.0
        self._scheduler = RefreshScheduler(context, self._refresh, self._assign, every_s)
        self._acls = StoredAcls(context.name, settings.originals, offsets_of)
        self._syncs = TopicSyncs(settings, context, self._acls)
        verified = settings.boolean(SAMPLING_ENABLED)
        self._verification = SamplingVerification(settings, targets, offsets_of, context) if verified else None
        self._nothing: str | None = None
        self._reserved: str | None = None
        self._others = others
        self._links: Links = {}
        self._looking: asyncio.Task[None] | None = None
        self._others_told: Sequence[str] = ()

    def start(self) -> None:
        """Begins to refresh, in the background."""
        if self._config.settings.boolean("enabled"):
            self._scheduler.start()
        else:
            self._context.started()
            self._context.request_task_reconfiguration([])

    async def stop(self) -> None:
        """Ends it. A Kafka call in progress ends by its own time limit; its result is ignored."""
        await self._scheduler.stop()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._syncs.stop()
        await self._acls.close()
        if self._verification is not None:
            await self._verification.stop()

    def _assign(self, found: Found) -> None:
        self._log_what_is_new(found)
        self._assignment = reassign(self._assignment, found.partitions, self._config.settings.integer("tasks.max"))
        self._context.request_task_reconfiguration(task_configs(self._config.raw, self._assignment))
        self._links = found.links
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_at_others())
        # After the first refresh, as in MirrorMaker: now there is something to sync.
        if self._source is not None and self._target is not None:
            self._syncs.know(Known(self._source, self._target, found.links, self._selection.reserved))
        if self._verification is not None:
            self._verification.start()

    def _log_what_is_new(self, found: Found) -> None:
        # Only in the log: Connect's status does not show it, and scripts take a trace for a problem.
        nothing = found.nothing if self._nothing is None else None
        reserved = found.reserved if found.reserved != self._reserved else None
        self._warn(filter(None, (nothing, reserved)))
        self._nothing, self._reserved = found.nothing, found.reserved

    async def _look_at_others(self) -> None:
        await self._others.settled()
        try:
            lines = await self._others.lines(self._context.name, self._config.raw, self._links)
        except Exception:  # it is a hint, and concerns nothing else
            log.exception("Connector %s: what others copy is not known", ConnectorName(self._context.name))
            return
        self._warn(line for line in lines if line not in self._others_told)
        self._others_told = lines

    def _warn(self, lines: Iterable[str]) -> None:
        for line in lines:
            log.warning("Connector %s: %s", ConnectorName(self._context.name), line)

    # In the scheduler's thread.

    def _refresh(self) -> Found:
        settings = self._config.settings
        timeout = admin_timeout_s(settings)
        if self._source is None:
            what = f"source cluster {settings.text('source.cluster.alias')}"
            self._source = ClusterAdmin(required_source_admin(settings.originals), what, timeout, user=SOURCE_USER)
        if self._target is None:
            chosen = self._targets.choose(settings.originals, timeout)
            what = f"target cluster {settings.text('target.cluster.alias')}"
            self._worker_topics = chosen.reserved
            self._selection = self._selection.with_reserved(chosen.reserved)
            self._target = ClusterAdmin(chosen.admin, what, timeout, user=TARGET_USER)
        if self._mapping_topics_made:
            return self._topics(self._source, self._target)
        # Before there are tasks, which write to them. Brokers take a tenth of a second for a topic: all are made at once.
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="mapping-topics") as beside:
            making = beside.submit(copy_context().run, make_mapping_topics, settings, self._source, self._target)
            found = self._topics(self._source, self._target)
            unmade = making.result()
        self._mapping_topics_made = not unmade
        problems = [Problem("mapping topics", ProblemCode.TOPIC_NOT_CREATED, line) for line in unmade]
        return replace(found, problems=[*problems, *found.problems])

    def _topics(self, source: ClusterAdmin, target: ClusterAdmin) -> Found:
        settings = self._config.settings
        found = source.topics()
        self._selection.judge(found)
        there = target.topics()
        if self._letters is not None:
            make_dead_letter_topic(target, self._context.name, self._letters, there, self._worker_topics)
            self._letters = None
        existing = self._fresh.added_to(there)
        topics = decide_topics(
            settings,
            self._selection,
            self._configs,
            source,
            existing=existing,
            found=found,
            assigned={partition.topic for task in self._assignment for partition in task},
            one_cluster=self._routed and source.cluster_id() == target.cluster_id(),
        )
        changes = make_changes(target, topics.changes)
        self._fresh.made({topic: count for topic, count in changes.there.items() if count > existing.get(topic, 0)})
        for line in changes.made:
            log.info("Connector %s: %s", ConnectorName(self._context.name), line)
        partitions, links = topics.partitions(changes.there), topics.links(changes.there)
        nothing = nothing_copied(settings, self._selection, found)
        reserved = _reserved_line(self._selection.reserved_topics(found))
        refused = {**topics.refused, **changes.refused}
        problems = [Problem(topic, ProblemCode.TOPIC_NOT_COPIED, line) for topic, line in sorted(refused.items())]
        return Found(partitions, problems, links, nothing, reserved)


def _reserved_line(remote: Mapping[str, str]) -> str | None:
    if not remote:
        return None
    names = list(remote)
    more = len(names) - RESERVED_SHOWN
    shown = ", ".join(names[:RESERVED_SHOWN]) + (f" and {more} more" if more > 0 else "")
    first = f"{names[0]} would be {remote[names[0]]}"
    return (
        "not copied, because on the target they would be internal topics of the worker or of MirrorMaker, or the dead "
        f"letter topic: {shown} ({first}). Add them to topics.exclude, or choose a policy or an alias that gives them other "
        "names"
    )
