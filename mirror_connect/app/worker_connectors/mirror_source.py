"""The connector part of MirrorSourceConnector: which topics to copy, their remote topics, and who copies what."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.config_sync import ConfigSync, Links
from mirror_connect.app.worker_connectors.following import Following, OffsetsOf
from mirror_connect.app.worker_connectors.fresh_topics import FreshTopics
from mirror_connect.app.worker_connectors.host import PartHost
from mirror_connect.app.worker_connectors.joined_troubles import JoinedTroubles
from mirror_connect.app.worker_connectors.mapping_topics import make_mapping_topics
from mirror_connect.app.worker_connectors.nothing_copied import nothing_copied
from mirror_connect.app.worker_connectors.remote_topics import bring_up_to_date
from mirror_connect.app.worker_connectors.rounds import Rounds
from mirror_connect.app.worker_connectors.stored_acls import StoredAcls
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.app.worker_connectors.topic_followers import Known, TopicFollowers
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.mirror.assignment import Assignment, redeal, task_configs
from mirror_connect.connectors.mirror.mirror_settings import required_source_admin
from mirror_connect.connectors.mirror.mirror_source import FOLLOWED, own_boolean, topic_selection
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)
KEPT_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PartConfig:
    """A connector as its part sees it. `raw` is what task configs are made of, `settings` are resolved.

    `previous`: the stored assignment, which is kept as far as it still holds.
    """

    name: str
    raw: Mapping[str, str]
    settings: Settings
    previous: Assignment


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at both clusters found: the partitions to copy, and a line for each topic that is in trouble.

    `links`: source topic → remote topic, of those that are there on both. `nothing`: why there is none to copy.
    `kept_back`: which topics are not copied as their remote topics are the worker's or MirrorMaker's own.
    """

    partitions: Sequence[TopicPartition]
    troubles: Sequence[str]
    links: Links
    nothing: str | None
    kept_back: str | None


class MirrorSourcePart:
    """See the module."""

    def __init__(self, config: PartConfig, targets: TargetChooser, host: PartHost, offsets_of: OffsetsOf) -> None:
        self._config = config
        self._targets = targets
        self._host = host
        self._selection = topic_selection(config.settings)
        self._assignment = config.previous
        self._source: ClusterAdmin | None = None
        self._target: ClusterAdmin | None = None
        self._mapping_topics_made = False
        self._fresh = FreshTopics()
        self._configs = ConfigSync(config.settings)
        settings = config.settings
        refreshes = settings.boolean("refresh.topics.enabled")
        every_s = float(settings.integer("refresh.topics.interval.seconds")) if refreshes else 0.0
        troubles = JoinedTroubles(host)
        self._rounds = Rounds(config.name, troubles.main(), self._look, self._deal, every_s)
        self._acls = StoredAcls(config.name, settings.originals, offsets_of)
        self._followers = TopicFollowers(settings, troubles, self._acls)
        followed = own_boolean(settings, FOLLOWED)
        beside = troubles.beside()
        self._following = Following(config.name, settings, targets, offsets_of, beside) if followed else None
        self._nothing: str | None = None
        self._kept_back: str | None = None

    def start(self) -> None:
        """Begins to look, in the background."""
        if self._config.settings.boolean("enabled"):
            self._rounds.start()
        else:
            self._host.started(self._config.name)
            self._host.reconfigure(self._config.name, [])

    async def stop(self) -> None:
        """Ends it. A Kafka call under way is left to its own time limit; its result goes nowhere."""
        await self._rounds.stop()
        await self._followers.stop()
        await self._acls.close()
        if self._following is not None:
            await self._following.stop()

    def _deal(self, found: Found) -> None:
        # For the log alone: a status of Connect's is silent on it, and scripts take a trace for trouble.
        if found.nothing is not None and self._nothing is None:
            log.warning("Connector %s: %s", self._config.name, found.nothing)
        self._nothing = found.nothing
        if found.kept_back is not None and found.kept_back != self._kept_back:
            log.warning("Connector %s: %s", self._config.name, found.kept_back)
        self._kept_back = found.kept_back
        self._assignment = redeal(self._assignment, found.partitions, self._config.settings.integer("tasks.max"))
        self._host.reconfigure(self._config.name, task_configs(self._config.raw, self._assignment))
        # After the first look, as in MirrorMaker: now there is something to follow.
        if self._source is not None and self._target is not None:
            self._followers.know(Known(self._source, self._target, found.links, self._selection.kept))
        if self._following is not None:
            self._following.start()

    # --- in the thread of the rounds ------------------------------------------------------------------------------

    def _look(self) -> Found:
        settings = self._config.settings
        timeout = settings.integer("admin.timeout.ms") / 1000
        if self._source is None:
            what = f"source cluster {settings.text('source.cluster.alias')}"
            self._source = ClusterAdmin(required_source_admin(settings.originals), what, timeout, user=SOURCE_USER)
        if self._target is None:
            chosen = self._targets.choose(settings.originals, timeout)
            what = f"target cluster {settings.text('target.cluster.alias')}"
            self._selection = self._selection.keeping(chosen.kept)
            self._target = ClusterAdmin(chosen.admin, what, timeout, user=TARGET_USER)
        # First of all, as in MirrorMaker: tasks write to them.
        troubles = [] if self._mapping_topics_made else make_mapping_topics(settings, self._source, self._target)
        self._mapping_topics_made = not troubles
        alias = settings.text("source.cluster.alias")
        policy = self._selection.policy
        found = self._source.topics()
        self._selection.judge(found)
        source = {topic: count for topic, count in found.items() if self._selection.should_replicate(topic)}
        existing = self._fresh.added_to(self._target.topics())
        remote, doubled = _one_to_one({topic: policy.remote_topic(alias, topic) for topic in sorted(source)})
        source = {topic: source[topic] for topic in remote}
        wanted = {remote[topic]: count for topic, count in source.items()}
        new = self._configs.for_new_topics(self._source, [topic for topic in source if remote[topic] not in existing])
        configs = {remote[topic]: each for topic, each in new.configs.items()}
        changes = bring_up_to_date(self._target, wanted, existing, settings.integer("replication.factor"), configs)
        self._fresh.made({topic: count for topic, count in changes.there.items() if count > existing.get(topic, 0)})
        refused = new.unreadable | changes.refused | doubled
        for line in changes.made:
            log.info("Connector %s: %s", self._config.name, line)
        # A partition that the target does not have (yet) waits: its task would fail, and take others along.
        partitions = [
            TopicPartition(topic, partition)
            for topic, count in sorted(source.items())
            for partition in range(min(count, changes.there[remote[topic]]))
        ]
        links = {topic: name for topic, name in remote.items() if changes.there[name] > 0}
        nothing = nothing_copied(settings, self._selection, found)
        kept_back = _kept_back_line(self._selection.kept_back(found))
        return Found(partitions, troubles + [line for _, line in sorted(refused.items())], links, nothing, kept_back)


def _kept_back_line(remote: Mapping[str, str]) -> str | None:
    if not remote:
        return None
    names = list(remote)
    shown = ", ".join(names[:KEPT_SHOWN]) + (f" and {len(names) - KEPT_SHOWN} more" if len(names) > KEPT_SHOWN else "")
    first = f"{names[0]} would be {remote[names[0]]}"
    return (
        f"not copied, as on the target they would be topics that the worker or MirrorMaker itself keeps: {shown} ({first}); "
        "add them to topics.exclude, or choose a policy or an alias that gives them other names"
    )


def _one_to_one(remote: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Source topic → remote topic, and a line for each topic whose name another one has: a policy of the user's may do so.

    Both in one remote topic would be two topics' records that nobody can tell apart any more.
    """
    first: dict[str, str] = {}
    for topic, name in remote.items():
        first.setdefault(name, topic)
    lines = {
        topic: f"topic {topic} is not copied: replication.policy.class calls it {name} on the target, like {first[name]}"
        for topic, name in remote.items()
        if first[name] != topic
    }
    return {topic: name for topic, name in remote.items() if topic not in lines}, lines
