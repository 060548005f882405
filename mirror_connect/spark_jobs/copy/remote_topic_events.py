"""Reports what acknowledgements show of remote topics: another writer, or lost records. One event each."""

from __future__ import annotations

from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.wording import counted
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow


class RemoteTopicEvents:
    """The events of one task. `set_offsets`: what a user does to set its source offsets."""

    def __init__(self, problems: Problems, set_offsets: str) -> None:
        self._problems = problems
        self._set_offsets = set_offsets
        self._others_reported = False
        self._losses_reported: set[str] = set()

    def others_write(self, copied: TaskPartition, offset: int, count: int) -> None:
        """Reports another writer. If two connectors copy a topic to the same place, nothing else would show it."""
        if self._others_reported:
            return
        self._others_reported = True
        event = Problem(
            copied.remote_topic,
            ProblemCode.OTHER_WRITER,
            f"Somebody else writes to topic {copied.remote_topic} on the target too: {counted(count, 'record')} of "
            f"partition {copied.partition} from offset {offset} on did not come from this task",
            advice=f"if another connector or worker copies {copied.topic} there as well, all its records arrive twice: "
            "delete one of the two",
        )
        self._problems.event(event)

    def lost_records(self, flow: PartitionFlow, offset: int) -> None:
        """Reports lost records. They are not copied again unasked, as users may have deleted the topic on purpose."""
        copied = flow.partition
        if copied.remote_topic in self._losses_reported:
            return
        self._losses_reported.add(copied.remote_topic)
        event = Problem(
            copied.remote_topic,
            ProblemCode.TARGET_RECORDS_LOST,
            f"Topic {copied.remote_topic} on the target was deleted and created again, or has lost records. Partition "
            f"{copied.partition} continues with offset {offset} of {copied.topic}",
            advice=f"to copy lost records again, {self._set_offsets}",
        )
        self._problems.event(event)
