"""One source of MirrorMaker 1: a member of its consumer group, and the tasks that copy the member's partitions.

The order of a rebalance makes a takeover safe. The tasks stop, and what they sent is acknowledged or given up; the group
gets the offsets of what is acknowledged; then the member joins again. A partition that gets no answer in time is fenced by
the end of this member's lease alone, as in MirrorMaker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from mirror_connect.app.exposition.measured import MeasuredWorker
from mirror_connect.app.measured_worker import measured_source
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.mirror_maker.changed_lines import ChangedLines
from mirror_connect.app.mirror_maker.client_files import SourceFile, TargetFile
from mirror_connect.app.mirror_maker.failed_tasks import FailedTasks
from mirror_connect.app.mirror_maker.group_member import GroupMember
from mirror_connect.app.mirror_maker.offset_commits import OffsetCommits
from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.app.mirror_maker.source_topics import SourceTopics
from mirror_connect.app.mirror_maker.target_topics import TargetTopics, tasks_of
from mirror_connect.app.mirror_maker.task_specs import GroupTaskSpecs
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.app.steps import within
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_run import Phase
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.assignment import assigned_partitions_text
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    GroupClient,
    GroupSettings,
    MembershipLost,
    RebalanceNeeded,
)
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.start_offsets import start_offsets
from mirror_connect.kafka_io.protocol.consumer_protocol import PROTOCOL_TYPE

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_S: Final = 0.5
LATE_START_S: Final = 1.0
POLL_S: Final = 0.02
TASKS_PATIENCE_S: Final = 3.0
# Kept of the time that a rebalance leaves, for tasks that must be killed, the commit and the answer.
REBALANCE_MARGIN_S: Final = 5.0
STARTING_PATIENCE_S: Final = 2.0
LEAST_RELEASE_S: Final = 2.0
# The supervisor kills tasks that don't end earlier.
TASKS_END_S: Final = 2.5
# At the least, for that commit.
LAST_COMMIT_S: Final = 1.5
OTHERS: Final = (
    "members with other assignors, or of another kind: set the same partition.assignment.strategy for all of them"
)


class MirroredSource:
    """See the module. `flow`: its name in the log if there are several.

    `aborted(line)`: see FailedTasks.
    """

    def __init__(
        self,
        file: SourceFile,
        target: TargetFile,
        topics: TopicChoice,
        targets: TargetTopics,
        spark: SparkHost,
        *,
        flow: str,
        commit_interval_ms: int,
        skips_oversize: bool,
        aborted: Callable[[str], bool],
        metrics: WorkerMetrics,
    ) -> None:
        self._file = file
        self._flow = flow
        self._metrics = metrics
        self._targets = targets
        self._spark = spark
        self._fetching = FetchSettings.of(file.consumer)
        self._secrets = file.secrets | target.secrets
        # As MirrorMaker names its first consumer.
        client_id = file.consumer.get("client.id") or f"{file.group_id}-0"
        self._cluster = Cluster(file.consumer, client_id)
        self._positions = Positions()
        self._specs = GroupTaskSpecs(
            file.name, file.consumer, target.producer, self._positions, skips_oversize=skips_oversize
        )
        self._source_topics = SourceTopics(self._cluster, topics)
        self._lines = ChangedLines(log)
        self.member: Final = GroupMember(
            GroupClient(
                file.consumer,
                client_id,
                GroupSettings(
                    file.group_id,
                    PROTOCOL_TYPE,
                    file.assignors[0],
                    file.session_timeout_ms,
                    file.rebalance_timeout_ms,
                    SOURCE_USER,
                    OTHERS,
                ),
            ),
            self,
            group_id=file.group_id,
            assignors=file.assignors,
            session_timeout_ms=file.session_timeout_ms,
            heartbeat_interval_ms=file.heartbeat_interval_ms,
        )
        self._commits = OffsetCommits(
            file.group_id,
            self._positions,
            self.member,
            went_back=self._specs.went_back,
            interval_s=commit_interval_ms / 1000,
            aborted=aborted,
        )
        self._supervisor = Supervisor(spark, self._specs, self.member.lease_remaining, flow=flow, metrics=metrics)
        self._failed_tasks = FailedTasks(self._supervisor, aborted)
        self._membership: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Copies for ever. Raises GroupRefusedError, NotAuthorized, WrongOption."""
        self._supervisor.start()
        # A task begins without partitions: Spark is as slow as a rebalance.
        self._want({0: []})
        self._membership = asyncio.create_task(self.member.run(), name=f"member of {self._file.group_id}")
        await self._membership

    # Part of a process.

    async def secrets(self) -> frozenset[str]:
        """See Part."""
        return self._secrets

    def measured(self) -> MeasuredWorker:
        """See Part."""
        lease_s = self.member.lease_remaining()
        return measured_source(self._metrics, flow=self._flow, name=self._file.name, lease_s=lease_s)

    async def end_tasks(self) -> None:
        """Stops copying and commits what the target has."""
        if self._membership is not None:
            self._membership.cancel()
            await asyncio.gather(self._membership, return_exceptions=True)
        self._failed_tasks.stop()
        await within(self._supervisor.stop(TASKS_PATIENCE_S), "stopping the tasks", TASKS_PATIENCE_S + 0.5)
        await within(self._last_commit(), "committing the offsets")

    async def _last_commit(self) -> None:
        # In the middle of a rebalance, or without membership, the group takes no offsets: the next owner repeats records.
        with contextlib.suppress(MembershipLost, RebalanceNeeded):
            await self._commits.until_done()

    @property
    def ended(self) -> bool:
        """See process.Part. It waits for Spark: the group's next member reads the offsets that tasks report at their end."""
        return False

    async def leave(self) -> None:
        """Leaves the group."""
        silently = self._spark.is_remote and bool(self._supervisor.claimed_tasks())
        await within(self.member.leave(silently=silently), "leaving the group")

    async def close(self) -> None:
        """Closes the connections."""
        self._spark.remove(self._supervisor)
        await within(self._cluster.close(), "closing the connections")

    # The group's topics.

    async def topics(self) -> frozenset[str]:
        """See GroupWork."""
        return await self._source_topics.choose()

    async def partition_counts(self, topics: frozenset[str]) -> Mapping[str, int]:
        """See GroupWork. Of other members' topics too: each may have topics of its own."""
        return await self._source_topics.share(topics)

    # Copying.

    async def work(self, partitions: Sequence[TopicPartition]) -> None:
        """See GroupWork."""
        self._positions.assign(partitions, await self._until_answered(self.member.committed))
        await self._find_starts()
        await self._prepare_target()
        self._want_assigned()
        works = (
            self._until_topics_change(),
            self._commits.run(),
            self._failed_tasks.watch(),
            self._find_late_starts(),
        )
        working = [asyncio.create_task(each) for each in works]
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for each in working:
                if each.done():
                    each.result()
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    async def release(self) -> None:
        """See GroupWork."""
        self._want(dict.fromkeys(self._task_numbers(), ()))
        allowed_s = (self._file.rebalance_timeout_ms - self._file.heartbeat_interval_ms) / 1000
        limit = max(LEAST_RELEASE_S, allowed_s - REBALANCE_MARGIN_S)
        now = asyncio.get_running_loop().time
        until = now() + limit
        if not await self._nothing_is_owned(min(until, now() + STARTING_PATIENCE_S)):
            # Who starts hears of no new assignment before it runs, and its clusters may be away for long.
            for run in self._supervisor.runs:
                if run.owned and run.phase is Phase.STARTED:
                    self._supervisor.restart(run.task)
        if not await self._nothing_is_owned(until):
            log.warning("Some partitions were not given away within %g s; their records may come twice", limit)
            # Tasks end, or are killed, before the next owner writes. What they report meanwhile still counts.
            self._want({})
            await self._nothing_is_owned(now() + TASKS_END_S)
            self._supervisor.retire()
        try:
            async with asyncio.timeout_at(max(until, now() + LAST_COMMIT_S)):
                await self._commits.until_done()
        except TimeoutError:
            log.warning("Group %s: offsets were not committed in time; records may come twice", self._file.group_id)
        self._positions.drop()

    async def _nothing_is_owned(self, until: float) -> bool:
        """Waits for that, until this time of the loop at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while any(run.owned for run in self._supervisor.runs):
                    await asyncio.sleep(POLL_S)
                return True
        return False

    def lost(self) -> None:
        """See GroupWork. What the target has and the group has not is copied again, by whoever has the partitions now."""
        self._positions.drop()
        self._supervisor.retire()
        self._want({0: []})

    def _want(self, tasks: Mapping[int, Sequence[TopicPartition]]) -> None:
        self._supervisor.want(
            {
                TaskId(self._file.name, number): WantedTask(self._specs.config(assigned_partitions_text(partitions)))
                for number, partitions in tasks.items()
            }
        )

    def _task_numbers(self) -> set[int]:
        return {0, *(run.task.task for run in self._supervisor.runs)}

    def _want_assigned(self) -> None:
        """Copies the partitions of this member, each after its start is committed: its next owner might begin elsewhere."""
        waiting = self._positions.uncommitted if self._resets else frozenset()
        self._want(tasks_of(self._positions.partitions - waiting, self._specs.counts))

    @property
    def _resets(self) -> bool:
        return self._fetching.reset.timestamp is not None

    async def _find_starts(self) -> None:
        """Finds where auto.offset.reset leads, and commits it: else what is written before the first commit may be lost."""
        if not self._positions.uncommitted or not self._resets:
            return
        try:
            self._positions.begin(await start_offsets(self._cluster, self._positions.unknown, self._fetching))
            self._lines.over("start")
        except ClusterUnreachable as problem:
            self._lines.tell("start", f"Group {self._file.group_id} can't begin: {problem}")
        await self._commits.once()

    async def _find_late_starts(self) -> None:
        """A partition without a leader, or a coordinator that is away, must keep no other one waiting."""
        while True:
            await asyncio.sleep(LATE_START_S)
            before = self._positions.uncommitted
            with contextlib.suppress(RebalanceNeeded):
                await self._find_starts()
            if self._positions.uncommitted != before:
                self._want_assigned()

    async def _prepare_target(self) -> None:
        """Creates absent topics on the target, and reads how many partitions each has."""
        wanted = {each.topic for each in self._positions.partitions}
        sources = {topic: count for topic, count in self._source_topics.counts.items() if topic in wanted}

        async def prepared() -> dict[str, int]:
            return await asyncio.to_thread(self._targets.prepared, sources)

        self._specs.counts = await self._until_answered(prepared)

    async def _until_topics_change(self) -> None:
        """Returns when the group has to rebalance: this member's topics, or their partitions on either side, are others."""
        while True:
            await asyncio.sleep(self._file.metadata_max_age_ms / 1000)
            with contextlib.suppress(ClusterUnreachable):
                if await self._source_topics.have_changed():
                    log.info("Group %s: topics or partitions have changed; it rebalances", self._file.group_id)
                    return
            before = self._specs.counts
            await self._prepare_target()
            if before != self._specs.counts:
                log.info("Group %s: topics of the target have changed; it rebalances", self._file.group_id)
                return

    async def _until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                answer = await ask()
            except (ClusterUnreachable, CoordinatorLost, AdminError) as problem:
                self._lines.tell("answer", f"Group {self._file.group_id} waits: {problem}")
            else:
                self._lines.over("answer")
                return answer
            await asyncio.sleep(RETRY_S)
