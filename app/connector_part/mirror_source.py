"""The connector part of MirrorSourceConnector: which topics to copy, their remote topics, and who copies what.

One thread for each connector does the Kafka calls, so that a 60-second admin call blocks nobody else. What it found goes
to the herder on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.connector_part.host import PartHost
from mirror_connect.app.connector_part.remote_topics import bring_up_to_date
from mirror_connect.app.connector_part.target_choice import TargetChooser
from mirror_connect.connectors.assignment import Assignment, TopicPartition, redeal, task_configs
from mirror_connect.connectors.config_table import Settings
from mirror_connect.connectors.errors import AddressUnknown, ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror_settings import source_admin
from mirror_connect.connectors.mirror_source import topic_selection
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin

log = logging.getLogger(__name__)

# Unlike MirrorMaker 2, which waits for the next refresh (10 minutes), a failed round is tried again soon.
RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
# A connector whose bootstrap servers have no address at its start fails when it was tried so often again.
ADDRESS_TRIES: Final = 2
TROUBLES_SHOWN: Final = 3


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
    """What one look at both clusters found: the partitions to copy, and a line for each topic that is in trouble."""

    partitions: Sequence[TopicPartition]
    troubles: Sequence[str]


class MirrorSourcePart:
    """See the module."""

    def __init__(self, config: PartConfig, targets: TargetChooser, host: PartHost) -> None:
        self._config = config
        self._targets = targets
        self._host = host
        self._selection = topic_selection(config.settings)
        self._assignment = config.previous
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"connector-{config.name}")
        self._source: ClusterAdmin | None = None
        self._target: ClusterAdmin | None = None
        self._rounds: asyncio.Task[None] | None = None
        self._trouble: str | None = None

    def start(self) -> None:
        """Begins to look, in the background."""
        self._rounds = asyncio.create_task(self._keep_looking())

    async def stop(self) -> None:
        """Ends it. A Kafka call under way is left to its own time limit; its result goes nowhere."""
        if self._rounds is not None:
            self._rounds.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._rounds
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _keep_looking(self) -> None:
        name, settings = self._config.name, self._config.settings
        if not settings.boolean("enabled"):
            self._host.started(name)
            self._host.reconfigure(name, [])
            return
        loop = asyncio.get_running_loop()
        failures = 0
        running = False
        while True:
            try:
                found = await loop.run_in_executor(self._thread, self._look)
            except (ClusterUnreachable, AdminError, NotAuthorized) as error:
                if not running and _fails_a_start(error, failures):
                    self._host.failed(name, str(error))
                    return
                if not running and not isinstance(error, AddressUnknown):
                    # As in Connect an unreachable cluster doesn't fail the connector: it runs, without new tasks.
                    self._host.started(name)
                    running = True
                self._say_trouble(str(error))
                # Credentials are looked at again by people, not by time.
                pause = RETRY_S[-1 if isinstance(error, NotAuthorized) else min(failures, len(RETRY_S) - 1)]
                failures += 1
            except ConfigError as error:
                self._host.failed(name, str(error))
                return
            except Exception as error:  # whatever it is, it is this connector's alone
                log.exception("Connector %s", name)
                self._host.failed(name, f"{type(error).__name__}: {error}")
                return
            else:
                failures = 0
                if not running:
                    self._host.started(name)
                    running = True
                self._say_trouble(_in_one_line(found.troubles))
                self._deal(found.partitions)
                pause = RETRY_S[-1] if found.troubles else float(settings.integer("refresh.topics.interval.seconds"))
                # An interval of nothing means never, as in MirrorMaker.
                if not found.troubles and (pause <= 0 or not settings.boolean("refresh.topics.enabled")):
                    return
            await asyncio.sleep(pause)

    def _say_trouble(self, line: str | None) -> None:
        if line == self._trouble:
            return
        self._trouble = line
        if line is not None:
            log.warning("Connector %s: %s", self._config.name, line)
        else:
            log.info("Connector %s: the trouble is over", self._config.name)
        self._host.troubled(self._config.name, line)

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        self._assignment = redeal(self._assignment, partitions, self._config.settings.integer("tasks.max"))
        self._host.reconfigure(self._config.name, task_configs(self._config.raw, self._assignment))

    # --- in the connector's own thread ------------------------------------------------------------------------------

    def _look(self) -> Found:
        settings = self._config.settings
        timeout = settings.integer("admin.timeout.ms") / 1000
        if self._source is None:
            what = f"source cluster {settings.text('source.cluster.alias')}"
            self._source = ClusterAdmin(source_admin(settings.originals), what, timeout)
        if self._target is None:
            chosen = self._targets.choose(settings.originals, timeout)
            what = f"target cluster {settings.text('target.cluster.alias')}"
            self._target = ClusterAdmin(chosen.admin, what, timeout)
        alias = settings.text("source.cluster.alias")
        policy = self._selection.policy
        source = {
            topic: count for topic, count in self._source.topics().items() if self._selection.should_replicate(topic)
        }
        existing = self._target.topics()
        wanted = {policy.remote_topic(alias, topic): count for topic, count in source.items()}
        changes = bring_up_to_date(self._target, wanted, existing, settings.integer("replication.factor"))
        for line in changes.made:
            log.info("Connector %s: %s", self._config.name, line)
        # A partition that the target does not have (yet) waits: its task would fail, and take others along.
        partitions = [
            TopicPartition(topic, partition)
            for topic, count in sorted(source.items())
            for partition in range(min(count, changes.there[policy.remote_topic(alias, topic)]))
        ]
        return Found(partitions, [line for _, line in sorted(changes.refused.items())])


def _fails_a_start(error: Exception, failures: int) -> bool:
    # As in Connect, but for a name without an address not at once: name servers have bad moments, too.
    return isinstance(error, NotAuthorized) or (isinstance(error, AddressUnknown) and failures >= ADDRESS_TRIES)


def _in_one_line(troubles: Sequence[str]) -> str | None:
    if len(troubles) > TROUBLES_SHOWN:
        troubles = [*troubles[:TROUBLES_SHOWN], f"and {len(troubles) - TROUBLES_SHOWN} more"]
    return "; ".join(troubles) or None
