"""Handles batches and records that are too large for their remote topic: asks for its limit, splits, reports."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from typing import Final, Protocol

from mirror_connect.connectors.mirror.mirror_source import OVERSIZE_RECORDS, SKIP
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.produce_outcome import Outcome, OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.protocol.topic_configs import DescribeTopicConfigs

LIMIT: Final = "max.message.bytes"
DESCRIBE_TIMEOUT_S: Final = 5.0


class SplittingSender(Protocol):
    """What splitting needs of the sender."""

    producer: ProducerIdAndEpoch

    @property
    def partitions(self) -> Mapping[TopicPartition, TargetPartition]:
        """All partitions of the producer."""

    def after_answers(self, targets: Iterable[TargetPartition]) -> None:
        """These partitions may have something to send."""

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Runs this until the sender is closed."""

    def fail(self, error: BaseException) -> None:
        """Ends the producer."""


class BatchSplitter:
    """Splits batches that the target refused as too large, one in each turn of the event loop.

    Splitting takes up to a second, and one answer may refuse many batches.
    """

    def __init__(self, target: Cluster, problems: Problems, sender: SplittingSender) -> None:
        self._target = target
        self._problems = problems
        self._sender = sender
        self._to_split: deque[tuple[TargetPartition, InFlightBatch]] = deque()
        self._topics_asked: set[str] = set()

    @property
    def waiting(self) -> bool:
        """Whether batches wait to be split. The producer must not take a new epoch meanwhile."""
        return bool(self._to_split)

    def split_soon(self, target: TargetPartition, sent: InFlightBatch) -> None:
        """Splits this batch in a later turn of the loop; until then its partition sends nothing."""
        target.splitting()
        self._to_split.append((target, sent))
        if len(self._to_split) == 1:
            asyncio.get_running_loop().call_soon(self._split_next)

    def close(self) -> None:
        """Splits nothing more."""
        self._to_split.clear()

    def _split_next(self) -> None:
        if not self._to_split:
            return
        target, sent = self._to_split.popleft()
        if self._to_split:
            asyncio.get_running_loop().call_soon(self._split_next)
        try:
            self._split(target, sent)
        except Exception as error:  # noqa: BLE001 - nobody awaits a callback, so the error must end the producer
            self._sender.fail(error)
        self._sender.after_answers([target])

    def _split(self, target: TargetPartition, sent: InFlightBatch) -> None:
        # If an earlier batch was refused for good meanwhile, this one is dropped already.
        if target.failure is None:
            try:
                target.split(sent, self._sender.producer)
            except PartitionRefusedError as error:
                # Only the head may stop its partition: the answers for earlier batches are not known yet.
                if target.is_head(sent):
                    target.fail(error)
            else:
                self._ask_for_limit(target.topic, sent.size)
        target.answered(sent, Outcome.RETRY, absent=True)

    def _ask_for_limit(self, topic: str, refused: int) -> None:
        """Asks once for each topic. With the limit known, larger batches are split before they are sent."""
        if topic not in self._topics_asked:
            self._topics_asked.add(topic)
            self._sender.spawn(self._take_limit(topic, refused))

    async def _take_limit(self, topic: str, refused: int) -> None:
        largest = await largest_message(self._target, topic)
        # Either the limit was raised meanwhile, or it is not the reason. Then halving finds the size.
        if largest is not None and largest >= refused:
            largest = None
        for target in self._sender.partitions.values():
            if largest is not None and target.topic == topic:
                target.set_largest(largest)
        self._problems.log(too_large(topic, refused, largest))


async def largest_message(target: Cluster, topic: str) -> int | None:
    """The topic's present limit for a batch; None without an answer in time, or without the right (DESCRIBE_CONFIGS)."""
    try:
        async with asyncio.timeout(DESCRIBE_TIMEOUT_S):
            (described,) = await target.any_node(DescribeTopicConfigs((topic,), (LIMIT,)))
            value = described.configs[0].value
    except Exception:  # noqa: BLE001 — without the limit, halving finds the size and the error lacks one number
        return None
    return int(value) if value is not None and value.isdigit() else None


def given_up(source: str, error: OversizeRecordError, limit: int | None) -> Problem:
    """The event that a record was skipped."""
    takes = "takes" if limit is None else f"takes ({LIMIT}={limit})"
    return Problem(
        source,
        ProblemCode.RECORD_TOO_LARGE_SKIPPED,
        f"{source}: the record at offset {error.record} is skipped: it has {error.size} bytes, more than topic "
        f"{error.topic} on the target {takes}, and {OVERSIZE_RECORDS} is {SKIP}; reading continues at {error.behind}",
    )


def too_large(topic: str, size: int, limit: int | None) -> str:
    """The log line about a topic whose batches must be split; `limit`: None if it isn't known."""
    takes = (
        f"takes batches of {limit} bytes at most ({LIMIT})" if limit is not None else f"refuses a batch of {size} bytes"
    )
    return (
        f"Topic {topic} on the target {takes}: larger ones are split, which costs CPU time. To have them copied as they "
        f"are, set its {LIMIT} to that of the source's topic"
    )
