"""The topics on the target: created if absent, and which of their partitions each source partition goes to.

A new topic has as many partitions as its source, and the broker's default.replication.factor. An existing one is never
changed. Partition p goes to partition p mod n of a topic with n partitions: to the same number if there are enough. So all
records of one source partition stay together, in their order, and with them all records of one key.

Two source partitions may share one target partition. One producer can't write both, so they go to different tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SAME, TaskPartition
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.admin.topic_admin import NewRemote, Refused, create_topics

log = logging.getLogger(__name__)

BROKERS_DEFAULT: Final = -1
ALREADY_THERE: Final = 36
TRIES: Final = 10
PAUSE_S: Final = 0.2


class TargetTopics:
    """The topics of one target, asked for in an executor. Each line about a topic is logged once while it is true."""

    def __init__(self, admin: ClusterAdmin) -> None:
        self._admin = admin
        self._told: dict[str, str] = {}

    def prepared(self, sources: Mapping[str, int]) -> dict[str, int]:
        """Creates what is absent of these topics (name → partitions of the source); the partitions of each that is there.

        Blocking. A topic that can't be created is left out. ClusterUnreachable, NotAuthorized (credentials).
        """
        there = self._admin.topics()
        absent = {
            topic: NewRemote(count, BROKERS_DEFAULT) for topic, count in sorted(sources.items()) if topic not in there
        }
        refused = create_topics(self._admin, absent) if absent else {}
        there |= self._made_by_others(refused)
        for topic, new in absent.items():
            error = refused.get(topic)
            if error is None:
                log.info("Created topic %s on the target with %s", topic, counted(new.partitions, "partition"))
                there[topic] = new.partitions
            elif topic not in there:
                self._tell(topic, _not_created(topic, error))
        for topic, count in sources.items():
            if topic in there:
                self._tell(topic, _difference(topic, count, there[topic]))
        return {topic: there[topic] for topic in sources if topic in there}

    def _made_by_others(self, refused: Refused) -> dict[str, int]:
        """Topics that somebody else, perhaps another source here, has just created. Brokers report them a moment later."""
        wanted = {
            topic for topic, error in refused.items() if isinstance(error, AdminError) and error.code == ALREADY_THERE
        }
        found: dict[str, int] = {}
        for _ in range(TRIES if wanted else 0):
            found = {topic: count for topic, count in self._admin.topics().items() if topic in wanted}
            if found.keys() == wanted:
                break
            time.sleep(PAUSE_S)
        return found

    def _tell(self, topic: str, line: str) -> None:
        if line and self._told.get(topic) != line:
            log.warning("%s", line)
        self._told[topic] = line


def tasks_of(partitions: Iterable[TopicPartition], counts: Mapping[str, int]) -> dict[int, list[TopicPartition]]:
    """The partitions of each task, by its number: in one task no two go to the same partition on the target.

    `counts`: of the target's topics. Partitions of other topics wait, and are in no task.
    """
    tasks: dict[int, list[TopicPartition]] = {0: []}
    for partition in sorted(partitions):
        if partition.topic in counts:
            tasks.setdefault(partition.partition // counts[partition.topic], []).append(partition)
    return tasks


def task_partitions(partitions: Collection[TopicPartition], counts: Mapping[str, int]) -> tuple[TaskPartition, ...]:
    """Where these partitions go."""
    return tuple(
        TaskPartition(topic, number, topic, SAME if number < counts[topic] else number % counts[topic])
        for topic, number in sorted(partitions)
        if topic in counts
    )


def _not_created(topic: str, error: AdminError | NotAuthorized) -> str:
    return (
        f"Topic {topic} is not copied: {error}. Create it on the target, or let this user create it; it is tried again"
    )


def _difference(topic: str, source: int, target: int) -> str:
    if source == target:
        return ""
    which = "Records keep their partition" if target > source else f"Partition p goes to p mod {target}"
    return (
        f"Topic {topic} has {counted(source, 'partition')} on the source and {counted(target, 'partition')} on the target. "
        f"{which}; create it with {counted(source, 'partition')} if keys must lie where producers put them"
    )
