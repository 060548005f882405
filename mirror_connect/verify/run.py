"""The whole comparison of a link: several partitions at once. One that fails does not stop the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.batch_heads import BatchHead
from mirror_connect.kafka_io.consumer.record_reader import ListedOffset
from mirror_connect.verify.cluster_logs import ClusterLogs, RecordLog
from mirror_connect.verify.comparer import Comparer
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.link import Link
from mirror_connect.verify.plan import Job, plan, topics_of
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.record_side import RecordSide
from mirror_connect.verify.remarks import remarks
from mirror_connect.verify.truncation import Logs, truncations

EQUAL, DIFFERENT, NOT_COMPARED = range(3)
_AT_ONCE: Final = 4
_ORPHANS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Options:
    """`rate`: bytes per second from each cluster, None for no limit. `from_ms`: only records from this time on."""

    rate: float | None = None
    from_ms: int | None = None
    most_listed: int = 20
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a partition."""

    job: Job
    findings: Findings


@dataclass(slots=True)
class Report:
    """The results of the whole link. `notices`: lines about the link itself."""

    link: str
    results: list[Result] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    strict: bool = False

    @property
    def faults(self) -> int:
        """How many records are wrong."""
        return sum(each.findings.faults(strict=self.strict) for each in self.results)

    @property
    def behind(self) -> int:
        """Source offsets that needn't be on the target yet, of all partitions."""
        return sum(each.findings.behind for each in self.results)

    @property
    def gone(self) -> tuple[int, int]:
        """Target records that the source no longer has, and source records that the target no longer has."""
        found = [each.findings for each in self.results]
        return sum(each.gone_from_source for each in found), sum(each.gone_from_target for each in found)

    @property
    def nothing_copied(self) -> bool:
        """Whether there is something to copy, but nothing could be compared yet."""
        return self.behind > 0 and not any(each.findings.compared for each in self.results)

    @property
    def outcome(self) -> int:
        """The exit code: EQUAL, DIFFERENT or NOT_COMPARED. One difference is enough for DIFFERENT."""
        if self.faults:
            return DIFFERENT
        if not self.results or any(each.findings.error for each in self.results):
            return NOT_COMPARED
        # Without a copy, "equal" would be a wrong answer.
        return NOT_COMPARED if self.nothing_copied else EQUAL

    def as_json(self) -> dict[str, Any]:
        """The JSON output."""
        return {
            "link": self.link,
            "outcome": ("equal", "different", "not compared")[self.outcome],
            "faults": self.faults,
            "seconds": round(self.seconds, 3),
            "reader": "librdkafka",
            "notices": self.notices,
            "partitions": [
                {
                    "topic": each.job.topic,
                    "partition": each.job.partition,
                    "target_topic": each.job.remote,
                    "source_offsets": [each.job.start, each.job.until],
                    **each.findings.as_json(),
                    "before_source_start": each.findings.before_source_start,
                    "before_target_start": each.findings.before_target_start,
                }
                for each in self.results
            ],
        }


class Read(Protocol):
    """A side of a finished comparison."""

    @property
    def position(self) -> int:
        """The next offset to compare."""


class Headed(Protocol):
    """A log whose batch headers can be read."""

    async def heads(
        self, first: int, last: int, *, enough: Callable[[BatchHead], bool] | None = None
    ) -> list[BatchHead]:
        """The headers of the batches with these offsets."""


class Watcher:
    """Gets the progress. By default it does nothing."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Called once with all partitions to compare."""

    def advanced(self, job: Job, offset: int) -> None:
        """Called when a partition is compared up to this source offset."""

    def done(self, result: Result) -> None:
        """Called when a partition is done."""


async def verify(link: Link, options: Options, watcher: Watcher) -> Report:
    """Compares a link. The caller must have read the link's positions before this call.

    If nothing can be compared: ClusterUnreachable, NotAuthorized, ConfigError, CannotCompareError.
    """
    report = Report(link.name, strict=options.strict)
    began = time.monotonic()
    topics = await topics_of(link)
    if not topics.ours:
        raise CannotCompareError("the source cluster has no topic that this link copies: check its topics setting")
    if topics.orphans:
        shown = ", ".join(topics.orphans[:_ORPHANS_SHOWN]) + (", …" if len(topics.orphans) > _ORPHANS_SHOWN else "")
        report.notices.append(f"Not compared, because the source has no topics with these names: {shown}")
    if topics.uncopied:
        shown = ", ".join(topics.uncopied[:_ORPHANS_SHOWN]) + (", …" if len(topics.uncopied) > _ORPHANS_SHOWN else "")
        report.notices.append(f"Not compared, because their copies would share a topic, or can have none: {shown}")
    source = ClusterLogs("source", link.source.consumer, committed=link.committed, rate=Rate(options.rate))
    # An exactly-once link writes transactions: what readers of committed records see is compared.
    target = ClusterLogs("target", link.target.consumer, committed=True, rate=Rate(options.rate))
    try:
        remotes = {link.remote_topic(topic) for topic in topics.ours} & topics.theirs.keys()
        ids = await source.topic_ids(topics.ours), await target.topic_ids(remotes)
        jobs = await plan(link, source, target, topics, options.from_ms)
        watcher.begin(jobs)
        results = await _all(jobs, source, target, options, watcher)
        results = await still_there(source, results, lambda job: (job.topic, job.source_end, job.source_epoch))
        results = await still_there(target, results, lambda job: (job.remote, job.target_end, job.target_epoch))
        report.results = results
        made_again("source", ids[0], await source.topic_ids(topics.ours), report.results, lambda job: job.topic)
        made_again("target", ids[1], await target.topic_ids(remotes), report.results, lambda job: job.remote)
    finally:
        await source.close()
        await target.close()
    report.seconds = time.monotonic() - began
    return report


async def still_there(
    logs: Logs, results: Sequence[Result], end: Callable[[Job], tuple[str, int, int]]
) -> list[Result]:
    """Replaces the findings of truncated partitions by an error: a comparison with a truncated log proves nothing.

    `end`: topic, end of the log and leader epoch when the comparison began.
    """
    ends = {}
    for result in results:
        topic, offset, epoch = end(result.job)
        if offset:
            ends[TopicPartition(topic, result.job.partition)] = ListedOffset(offset, epoch)
    lines = await truncations(logs, ends)
    found = []
    for result in results:
        line = lines.get(TopicPartition(end(result.job)[0], result.job.partition))
        found.append(result if line is None else Result(result.job, Findings(error=line)))
    return found


def made_again(
    role: str, before: Mapping[str, str], now: Mapping[str, str], results: Sequence[Result], name: Callable[[Job], str]
) -> None:
    """Sets an error where the topic was created again: a comparison with two topics proves nothing."""
    for result in results:
        topic = name(result.job)
        if topic in before and now.get(topic, before[topic]) != before[topic]:
            result.findings.error = (
                f"the {role}'s topic {topic} was deleted and created again during the comparison: run verify again"
            )


async def _all(
    jobs: Sequence[Job], source: ClusterLogs, target: ClusterLogs, options: Options, watcher: Watcher
) -> list[Result]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(job: Job) -> Result:
        async with room:
            findings = Findings(options.most_listed)
            try:
                await _compare(job, source, target, findings, watcher)
            except CannotCompareError as error:
                findings.error = str(error)
            result = Result(job, findings)
            watcher.done(result)
            return result

    done = await asyncio.gather(*(one(job) for job in jobs))
    return sorted(done, key=lambda result: (result.job.topic, result.job.partition))


async def _compare(job: Job, source: ClusterLogs, target: ClusterLogs, findings: Findings, watcher: Watcher) -> None:
    findings.behind = job.source_end - max(job.until, job.start)
    if job.absent:
        without_copy(job, findings)
        return
    if job.start >= job.source_end > 0:
        findings.note("the source has no records left to compare")
        before_the_logs(job, findings, job.target_end)
        return
    ours = source.log(TopicPartition(job.topic, job.partition), job.start, job.source_end)
    theirs = target.log(TopicPartition(job.remote, job.partition), job.target_start, job.target_end)
    left = RecordSide(ours, _damage_at_source(findings), expected=job.start, holes=job.start)
    try:
        begin = await _beginning(job, left, theirs)
        await theirs.seek(begin)
        damaged = _damage_on_target(findings)
        right = RecordSide(theirs, damaged, expected=begin, holes=job.target_start, producers=True)
        comparer = Comparer(
            left,
            right,
            findings,
            until=job.until,
            start=job.start,
            progress=lambda offset: watcher.advanced(job, offset),
        )
        await comparer.run()
        # The source offsets are older than the target's ends: records copied between the two are not behind.
        findings.behind = max(0, job.source_end - max(job.until, job.start, comparer.explained))
        findings.error = findings.error or unread(job, left, right)
        if not left.records and not right.records:
            findings.error = findings.error or await hidden(job, ours)
        before_the_logs(job, findings, begin)
    finally:
        await ours.close()
        await theirs.close()


def without_copy(job: Job, findings: Findings) -> None:
    """What is said of a partition that the target doesn't have.

    Records that the link says it has copied are missing. Nobody knows whether others are only late, or will never come: the
    link may not have seen the topic yet, or may not be able to make it.
    """
    if job.until > job.start:
        size = job.until - job.start
        findings.add(Fault(Kind.MISSING, (job.start, job.until - 1), None, size, job.absent))
    elif job.source_end > job.start:
        findings.error = (
            f"{job.absent}. If the link does not make it within refresh.topics.interval.seconds, read its log"
        )
    else:
        findings.note(job.absent)


def before_the_logs(job: Job, findings: Findings, begin: int) -> None:
    """Counts records before the beginning of the other side's log. The target was not read before `begin`."""
    read = findings.before_source_start
    if job.cut:
        unread_before = max(0, begin - job.asked_from)
        findings.gone_from_source += unread_before
        findings.before_source_start = unread_before + min(read, job.start)
    else:
        findings.before_source_start = 0
        if job.start:
            findings.gone_from_source -= read  # the source has them, but before the time to begin with
    # Records before the first equal one may have been compacted, too.
    findings.before_target_start = min(findings.before_target_start, job.target_start)
    for line in remarks(job, findings):
        findings.note(line)


def unread(job: Job, source: Read, target: Read) -> str | None:
    """The error of a comparison that ended before it read everything: nothing unread is called equal."""
    if source.position < job.until:
        return f"the source's log ended at offset {source.position}. It reached {job.until} when the comparison began"
    if target.position < job.target_end:
        return (
            f"the target's log ended at offset {target.position}. It reached {job.target_end} when the comparison began"
        )
    return None


async def hidden(job: Job, source: Headed) -> str | None:
    """The error of a comparison without a single record, if the source's log has records.

    A log may also hold only markers and aborted transactions, or offsets that compaction removed.
    """
    if job.until <= job.start:
        return None
    heads = await source.heads(job.start, job.until - 1, enough=_has_records)
    shown = next((head for head in heads if _has_records(head)), None)
    if shown is None:
        return None
    return f"no record was read on either side, but the source's log has a batch with records at offset {shown.first}"


def _has_records(head: BatchHead) -> bool:
    return head.records != 0 and not head.control and not head.aborted


async def _beginning(job: Job, source: RecordSide, target: RecordLog) -> int:
    """The target offset to begin at: by timestamps, at the copy of the source's first record or before it.

    A copy has its record's timestamp. So the first target record with this timestamp or a later one is the copy, or is
    before it.
    """
    if job.start == 0:
        return job.target_start
    records = await source.records_at(job.start)
    stamps = [record[1] for record in records if record[1] >= 0]
    if not stamps:
        return job.target_start
    found = await target.offset_at(min(stamps))
    return job.target_start if found is None else max(job.target_start, found)


def _damage_at_source(findings: Findings) -> Callable[[int, str], None]:
    def heard(offset: int, reason: str) -> None:
        findings.error = findings.error or f"the source's batch at offset {offset} can't be read: {reason}"

    return heard


def _damage_on_target(findings: Findings) -> Callable[[int, str], None]:
    def heard(offset: int, reason: str) -> None:
        findings.add(Fault(Kind.UNREADABLE, None, (offset, offset), detail=reason))

    return heard
