"""The connector part of MirrorCheckpointConnector: makes the checkpoints topic, and deals the source's groups to tasks.

Groups are looked for again and again. One that can't be read keeps no other from being translated: it stays where it
was, is told, and looked at again soon. (MirrorMaker's whole round fails.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.worker_connectors.host import PartHost
from mirror_connect.app.worker_connectors.internal_topics import make_internal_topic
from mirror_connect.app.worker_connectors.nothing_translated import nothing_translated
from mirror_connect.app.worker_connectors.rounds import Rounds
from mirror_connect.app.worker_connectors.source_groups import SeenGroups, see_groups
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.mirror.mirror_checkpoint import (
    checkpoint_selection,
    deal_groups,
    is_active,
    task_configs,
)
from mirror_connect.connectors.mirror.mirror_settings import client_id, required_source_admin
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)

NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Found:
    """What one look at the source found, and a line for each thing that is in trouble; `nothing`: why there is no group."""

    groups: SeenGroups
    troubles: Sequence[str]
    nothing: str | None = None


class MirrorCheckpointPart:
    """See the module. `raw` is what task configs are made of, `settings` are resolved; `previous`: groups dealt before."""

    def __init__(
        self,
        name: str,
        raw: Mapping[str, str],
        settings: Settings,
        targets: TargetChooser,
        host: PartHost,
        *,
        previous: Sequence[str] = (),
    ) -> None:
        self._name = name
        self._raw = raw
        self._settings = settings
        self._targets = targets
        self._host = host
        self._selection = checkpoint_selection(settings)
        self._dealt: Sequence[str] = previous
        self._named: set[str] = set()
        self._nothing: str | None = None
        self._topic_made = False
        self._source: ClusterAdmin | None = None
        refreshes = settings.boolean("refresh.groups.enabled")
        every_s = float(settings.integer("refresh.groups.interval.seconds")) if refreshes else 0.0
        self._rounds = Rounds(name, host, self._look, self._deal, every_s)

    def start(self) -> None:
        """Begins to look, in the background."""
        if is_active(self._settings):
            self._rounds.start()
        else:
            self._host.started(self._name)
            self._host.reconfigure(self._name, [])

    async def stop(self) -> None:
        """Ends it. A Kafka call under way is left to its own time limit; its result goes nowhere."""
        await self._rounds.stop()

    def _deal(self, found: Found) -> None:
        seen = found.groups
        self._name_others(seen.untranslatable)
        if found.nothing is not None and self._nothing is None:
            # A cluster without groups is new, as a rule, and nothing is wrong with it.
            level = logging.WARNING if seen.listed else logging.INFO
            log.log(level, "Connector %s: %s", self._name, found.nothing)
        self._nothing = found.nothing
        # Who can't be read now was read before: to drop it would restart tasks, and again when it can be read.
        kept = {group for group in self._dealt if group in seen.unreadable}
        gone = [group for group in self._dealt if group not in seen.listed]
        if gone:
            log.warning(
                "Connector %s: %s gone from the source; what was translated for %s stays on the target: %s",
                self._name,
                "a group is" if len(gone) == 1 else f"{len(gone)} groups are",
                "it" if len(gone) == 1 else "them",
                _names(gone),
            )
        self._dealt = sorted({*seen.wanted, *kept})
        dealt = deal_groups(self._dealt, self._settings.integer("tasks.max"))
        self._host.reconfigure(self._name, task_configs(self._raw, dealt))

    def _name_others(self, others: Mapping[str, str]) -> None:
        for kind in sorted(set(others.values())):
            names = sorted(group for group, its in others.items() if its == kind and group not in self._named)
            if names:
                self._named.update(names)
                log.warning(
                    "Connector %s: no positions of %s groups are translated, as they are not those of a consumer group: %s",
                    self._name,
                    kind,
                    _names(names),
                )

    # --- in the thread of the rounds --------------------------------------------------------------------------------

    def _look(self) -> Found:
        settings = self._settings
        timeout = settings.integer("admin.timeout.ms") / 1000
        troubles = [] if self._topic_made else self._make_topic(timeout)
        properties = required_source_admin(settings.originals)
        if self._source is None:
            what = f"source cluster {settings.text('source.cluster.alias')}"
            self._source = ClusterAdmin(properties, what, timeout, user=SOURCE_USER)
        # Says better than our own connections why a cluster can't be reached, or refuses.
        self._source.cluster_id()
        identity = client_id(settings.originals, "checkpoint-source-admin", configured=properties.get("client.id"))
        seen = see_groups(properties, identity, self._selection, timeout)
        troubles += [f"group {group} can't be read: {why}" for group, why in sorted(seen.unreadable.items())]
        return Found(seen, troubles, nothing_translated(settings, self._selection, seen))

    def _make_topic(self, timeout: float) -> list[str]:
        settings = self._settings
        what = f"target cluster {settings.text('target.cluster.alias')}"
        admin = ClusterAdmin(self._targets.choose(settings.originals, timeout).admin, what, timeout, user=TARGET_USER)
        topic = replication_policy(settings.originals).checkpoints_topic(settings.text("source.cluster.alias"))
        setting = "checkpoints.topic.replication.factor"
        refused = make_internal_topic(admin, self._name, topic, setting, settings.integer(setting))
        self._topic_made = refused is None
        return [refused] if refused else []


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - NAMES_SHOWN
    return ", ".join(groups[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
