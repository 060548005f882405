"""The specs of the tasks that copy one source, and the source offsets that they begin with and report.

A task is that of a source connector, with MirrorMaker 1's rules: the same topic names, no offset syncs, no topic for source
offsets, no transactional id. So a user who may write the topics needs no further right on the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.app.mirror_maker.target_topics import task_partitions
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, parse_assigned_partitions
from mirror_connect.connectors.mirror.mirror_source import OVERSIZE_RECORDS, SKIP, WAIT
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import MIRROR_MAKER_1, SourceOffset, TaskId, TaskSpec

SOURCE_CONNECTOR: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
# At the longest between two reports of source offsets; how often they are committed is the group member's matter.
REPORT_MS: Final = 500


# Tasks are no members of the group.
OF_THE_MEMBER: Final = frozenset(
    {"group.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records"}
)


class GroupTaskSpecs:
    """See supervisor.SpecSource. `counts`: the partitions of the target's topics, kept up to date by the caller.

    `went_back` is set when a source offset is lower than the one before.
    """

    def __init__(
        self,
        name: str,
        consumer: Mapping[str, str],
        producer: Mapping[str, str],
        positions: Positions,
        *,
        skips_oversize: bool,
    ) -> None:
        self._name = name
        self._consumer = {name: value for name, value in consumer.items() if name not in OF_THE_MEMBER}
        self._producer = producer
        self._positions = positions
        self.counts: dict[str, int] = {}
        self.went_back: Final = asyncio.Event()
        self._config: dict[str, str] = {
            "name": name,
            "connector.class": SOURCE_CONNECTOR,
            "source.cluster.alias": name,
            "target.cluster.alias": "target",
            "emit.offset-syncs.enabled": "false",
            OVERSIZE_RECORDS: SKIP if skips_oversize else WAIT,
        }

    def config(self, partitions_text: str) -> dict[str, str]:
        """The raw config of a task with these partitions."""
        return {**self._config, ASSIGNED_PARTITIONS: partitions_text}

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        """See SpecSource. Logins are in the clients' files, so no config has a secret."""
        return dict(config)

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        """See SpecSource."""
        partitions = parse_assigned_partitions(config.get(ASSIGNED_PARTITIONS, ""))
        return TaskSpec(
            run_id=run_id,
            connector=task.connector,
            task=task.task,
            connector_class=SOURCE_CONNECTOR,
            config=resolved,
            source=self._consumer,
            target=self._producer,
            source_alias=self._name,
            target_alias="target",
            assigned=task_partitions(partitions, self.counts),
            assignment_version=version,
            transactional_id="",
            offsets_topic="",
            offsets_partitions=0,
            commit_interval_ms=REPORT_MS,
            program=MIRROR_MAKER_1,
        )

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[TopicPartition]) -> list[SourceOffset]:
        """See SpecSource. ClusterUnreachable for a partition that the member has lost meanwhile: orders follow."""
        found = []
        for partition in partitions:
            try:
                following = self._positions.next_offset(partition)
            except KeyError:
                raise ClusterUnreachable(f"{partition} belongs to another member of the group by now") from None
            found.append(SourceOffset(*partition, None if following is None else following - 1))
        return found

    def copied(self, task: TaskId, offsets: Sequence[SourceOffset]) -> None:
        """See SpecSource."""
        for each in offsets:
            if each.offset is not None and self._positions.copied(
                TopicPartition(each.topic, each.partition), each.offset
            ):
                self.went_back.set()

    def wrote_for(self, task: TaskId, keys: Sequence[str]) -> None:
        """See SpecSource. MirrorMaker 1 has no tasks that write records of their own."""
        raise RuntimeError(f"task {task} has reported {len(keys)} keys of source offsets")

    def keep(self, tasks: Collection[TaskId]) -> None:
        """See SpecSource. Nothing is kept of a task."""
