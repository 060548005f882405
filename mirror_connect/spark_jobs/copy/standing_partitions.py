"""The partitions of a source task that stand still: why, until when, and how they are taken up again.

A record that the target refuses and a corrupt batch stop their partition alone: the line of the status says what a user can
do, and the partition is tried again now and then, so that nothing has to be restarted (docs/decisions/0013).

A partition that the target doesn't take at present gives back what was fetched of it, as the room is needed by the others.
What was sent stays with the producer, which tries it again; once that is acknowledged, what follows is fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.counted import counted
from mirror_connect.connectors.mirror.mirror_source import CORRUPT_BATCHES, OVERSIZE_RECORDS, SKIP
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.outage import Outage
from mirror_connect.kafka_io.consumer.fetcher import Fetcher, SourcePartition
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.oversize import given_up, largest_message
from mirror_connect.kafka_io.producer.produce_outcome import OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.standing import Standing, told
from mirror_connect.spark_jobs.task_context import WorkerLink

RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 60.0
# What is on the wire is answered soon, or lost after request.timeout.ms.
ON_WIRE_LOOK_S: Final = 0.05


class StandingPartitions:
    """`flows` and `targets`: the task's partitions; one that is taken up again gets another target here.

    `all_stand`: set as soon as every one of them waits for a user. `leaving`: those that are being taken away. Nothing may
    take them up again meanwhile, or two tasks would write to one partition.
    """

    def __init__(
        self,
        flows: Mapping[SourcePartition, PartitionFlow],
        targets: dict[SourcePartition, TargetPartition],
        fetcher: Fetcher,
        producer: BatchProducer,
        link: WorkerLink,
        *,
        target: Cluster,
        target_away: Outage,
        skips_corrupt: bool,
        skips_oversize: bool,
    ) -> None:
        self._flows = flows
        self._targets = targets
        self._fetcher = fetcher
        self._producer = producer
        self._link = link
        self._target = target
        self._target_away = target_away
        self._skips_corrupt = skips_corrupt
        self._skips_oversize = skips_oversize
        self._standing: dict[SourcePartition, Standing] = {}
        # Those that wait for an acknowledgement, and are not fetched meanwhile.
        self._given_back: set[SourcePartition] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._asking: set[asyncio.Task[None]] = set()
        # Refused records of which it is asked how large they may be: nothing else takes their partitions up meanwhile.
        self._asked: dict[SourcePartition, OversizeRecordError] = {}
        self.all_stand = asyncio.Event()
        self.leaving: set[SourcePartition] = set()

    async def close(self) -> None:
        """Nothing is taken up again after this."""
        for timer in self._timers:
            timer.cancel()
        for asking in self._asking:
            asking.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def forget(self, source: SourcePartition) -> None:
        """It is another task's now."""
        self._standing.pop(source, None)
        self._given_back.discard(source)
        self._asked.pop(source, None)

    def give_back(self) -> None:
        """Frees what was fetched of the partitions that the target doesn't take: it would stop all others."""
        for source, target in self._targets.items():
            if not self._producer.stalled(target):
                continue
            flow = self._flows.get(source)
            if flow is None or flow.stopped or target.closing or source in self.leaving:
                continue
            # Without a batch that is tried again nothing would tell when the target takes it. Looking for one may stop the
            # flow in front of a corrupt one.
            if self._producer.hold_head(target) and not flow.stopped:
                self._fetcher.remove(source)
                flow.clear()
                self._given_back.add(source)

    def acknowledged(self, flow: PartitionFlow) -> None:
        """The target takes the partition's records: what it gave back is fetched again, behind what is in flight."""
        if not self._given_back:
            return
        source = SourcePartition(flow.partition.topic, flow.partition.partition)
        if source in self._given_back and source not in self.leaving:
            self._given_back.discard(source)
            self._fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    def tell(self, troubles: Iterable[str]) -> None:
        """What the task's status says of its partitions, and `troubles` of what it writes besides; some may be empty.

        The task ends if all partitions need a user.
        """
        lines: dict[SourcePartition, str] = {}
        waiting = len(self._flows)
        for source in self._perhaps_in_trouble():
            flow, standing = self._flows[source], self._standing.get(source)
            if standing is not None and standing.topic_id not in (None, flow.topic_id):
                # What it stood in front of was another topic's.
                del self._standing[source]
                standing = None
            if standing is not None and flow.position >= standing.offset:
                del self._standing[source]
                self._link.notice(f"{flow} goes on behind offset {standing.offset}")
                standing = None
            if standing is not None:
                lines[source] = standing.line
                waiting -= standing.for_good
                continue
            # What a target refuses that is away it has refused before.
            line = "" if self._target_away.line else self._targets[source].trouble
            with contextlib.suppress(KeyError):  # one that isn't fetched at present
                state = self._fetcher.state(source)
                line = line or state.error
                waiting -= bool(line) and state.failed
            if line:
                lines[source] = line
        common = [self._target_away.line] if self._target_away.line else troubles
        self._link.standing = told(lines, (*self._fetcher.outages(), *common))
        if self._flows and waiting == 0:
            self.all_stand.set()

    def refuse(self, flow: PartitionFlow, error: PartitionRefusedError) -> None:
        """The target doesn't take it. Tried again later: whoever does what the line says needn't restart anything."""
        if isinstance(error, OversizeRecordError):
            source = SourcePartition(flow.partition.topic, flow.partition.partition)
            self._fetcher.remove(source)
            self._asked[source] = error
            asking = asyncio.create_task(self._oversize(flow, error))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        else:
            self._stand(flow, f"{flow} stands still at offset {error.offset}: {error}", error.offset, for_good=True)

    async def _oversize(self, flow: PartitionFlow, error: OversizeRecordError) -> None:
        limit = await largest_message(self._target, error.topic)
        source = SourcePartition(flow.partition.topic, flow.partition.partition)
        if self._asked.get(source) is not error:
            return
        del self._asked[source]
        if self._flows.get(source) is not flow or source in self.leaving:
            return
        if not self._skips_oversize:
            line = f"{flow} stands still at offset {error.offset}: {error.told(limit)}, or give it up with "
            self._stand(flow, f"{line}{OVERSIZE_RECORDS}={SKIP}", error.offset, for_good=True)
            return
        flow.next_offset = error.behind
        self._link.counters["skipped"] = self._link.counters.get("skipped", 0) + 1
        self._link.incident(given_up(str(flow), error, limit))
        self._look_again(source, flow)

    def stop_at_corrupt(self, flow: PartitionFlow, error: CorruptBatchError) -> None:
        """Names it once, lets the other partitions go on, and looks again later: a replica may have it whole."""
        source = SourcePartition(flow.partition.topic, flow.partition.partition)
        before = self._standing.get(source)
        # Where the partition stands, which may be in the middle of the batch; what a corrupt header says can be anything.
        at = flow.next_offset or 0
        # Not at the first look: the bytes may have been damaged on their way.
        seen = before is not None and before.offset == at
        if self._skips_corrupt and seen and (lost := flow.skip_corrupt()) is not None:
            self._link.incident(
                f"{flow}: {counted(lost, 'offset')} skipped at offset {at}, their batch is corrupt ({error.reason}) and "
                f"{CORRUPT_BATCHES} is {SKIP}; reading on at {flow.next_offset}"
            )
            del self._standing[source]
            self._fetcher.remove(source)
            self._later(0.0, lambda: self._look_again(source, flow))
            return
        line = f"{flow} stops at offset {at}: its batch is corrupt ({error.reason}); it is read again and again. " + (
            "It is skipped when an intact batch is found behind it"
            if self._skips_corrupt
            else f"To give its records up, set {CORRUPT_BATCHES}={SKIP}"
        )
        self._stand(flow, line, at, for_good=False)

    def _stand(self, flow: PartitionFlow, line: str, offset: int, *, for_good: bool) -> None:
        source = SourcePartition(flow.partition.topic, flow.partition.partition)
        before = self._standing.get(source)
        again = before is not None and before.offset == offset
        wait = min(before.wait * 2, RETRY_MAX_S) if before and again else RETRY_S
        if before is None or not again or before.line != line:
            self._link.notice(line)
        self._standing[source] = Standing(line, offset, wait, for_good, flow.topic_id)
        self._fetcher.remove(source)
        self._later(wait, lambda: self._look_again(source, flow))

    def _look_again(self, source: SourcePartition, flow: PartitionFlow) -> None:
        if self._flows.get(source) is not flow or source in self.leaving or source in self._asked:
            return
        self._given_back.discard(source)
        target = self._targets[source]
        if target.failure is not None:
            if target.on_wire:
                self._later(ON_WIRE_LOOK_S, lambda: self._look_again(source, flow))
                return
            target.closing = True
            self._targets[source] = self._producer.partition(target.topic, target.partition, flow)
        self._fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    def _perhaps_in_trouble(self) -> list[SourcePartition]:
        """Those of which a line may be told; the others, thousands perhaps, cost no more than a look at two fields."""
        refused = (source for source, target in self._targets.items() if target.trouble)
        found = dict.fromkeys((*self._standing, *refused, *self._fetcher.in_trouble()))
        return [source for source in found if source in self._flows]

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            self._timers.discard(timer)
            action()

        timer = asyncio.get_running_loop().call_later(seconds, act)
        self._timers.add(timer)
