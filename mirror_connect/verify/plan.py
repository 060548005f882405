"""The ranges of the partitions to compare.

The order of the requests makes the answer true for a running link: source offsets (or the source's ends), then the
target's ends, then the source's ends again. Everything up to the source offsets is on the target when its ends are asked
for. Everything on the target below its ends is at the source below the last ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.replication_policy import is_topic_name
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.verify.cluster_logs import ClusterLogs
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Link

_ADMIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """One partition. Source records from `start` on are compared. Those below `until` must be on the target.

    `source_end`, `target_end`: the logs' ends, under leaders of `source_epoch` and `target_epoch` (-1: unknown).
    `target_start`: the first offset of the target's log. `absent`: why the target has no such partition. `cut`: the
    source's log begins at `start` because retention removed what was before. `asked_from`: the target's first offset to
    compare: `target_start`, or that of the time to begin with.
    """

    topic: str
    partition: int
    remote: str
    start: int
    until: int
    source_end: int
    target_start: int = 0
    target_end: int = 0
    absent: str = ""
    cut: bool = False
    asked_from: int = 0
    source_epoch: int = -1
    target_epoch: int = -1


class Topics(NamedTuple):
    """Topics with their numbers of partitions. `ours`: those that the link copies. `theirs`: all of the target.

    `orphans`: target topics named like copies of topics that the source doesn't have (any more). `uncopied`: topics whose
    copy has the name of another one's, or one that no topic can have. The link does not copy these.
    """

    ours: Mapping[str, int]
    theirs: Mapping[str, int]
    orphans: Sequence[str]
    uncopied: Sequence[str] = ()


async def topics_of(link: Link) -> Topics:
    """The topics of both sides. CannotCompareError."""
    try:
        source, target = await asyncio.gather(
            asyncio.to_thread(ClusterAdmin(link.source.admin, "the source cluster", _ADMIN_S, user=SOURCE_USER).topics),
            asyncio.to_thread(ClusterAdmin(link.target.admin, "the target cluster", _ADMIN_S, user=TARGET_USER).topics),
        )
    except AdminError as error:
        raise CannotCompareError(str(error)) from None
    link.selection.judge(source)
    selected = {topic: count for topic, count in source.items() if link.selection.should_replicate(topic)}
    ours = one_to_one(link, selected)
    return Topics(ours, target, orphans(link, source, target), sorted(selected.keys() - ours.keys()))


def one_to_one(link: Link, selected: Mapping[str, int]) -> dict[str, int]:
    """Those of the selected topics that have a remote topic of their own: of several the one with source offsets."""
    copied = {topic for topic, _ in link.positions or ()}
    first: dict[str, str] = {}
    for topic in sorted(selected, key=lambda each: (each not in copied, each)):
        first.setdefault(link.remote_topic(topic), topic)
    return {topic: selected[topic] for name, topic in sorted(first.items()) if is_topic_name(name)}


def orphans(link: Link, source: Collection[str], target: Collection[str]) -> list[str]:
    """The target's topics that are named like this link's copies of missing source topics; no internal ones."""
    policy = link.selection.policy

    def is_one(topic: str) -> bool:
        if policy.is_internal(topic) or policy.source(topic) != link.source_alias:
            return False
        upstream = policy.upstream(topic)
        # Copies that keep their names can't be distinguished from the target's own topics.
        if upstream is None or upstream == topic or upstream in source:
            return False
        return link.selection.should_replicate(upstream)

    return sorted(filter(is_one, target))


async def plan(
    link: Link,
    source: ClusterLogs,
    target: ClusterLogs,
    topics: Topics,
    from_ms: int | None = None,
) -> list[Job]:
    """The partitions to compare, the largest first. `from_ms`: compare from this time on, not from the logs' beginnings."""
    ours, theirs = topics.ours, topics.theirs
    keys = [TopicPartition(topic, number) for topic in sorted(ours) for number in range(ours[topic])]
    remotes = {key: link.remote(key) for key in keys}
    there = {key: remote for key, remote in remotes.items() if remote[1] < theirs.get(remote[0], 0)}

    begins = first = await source.offsets(dict.fromkeys(keys, EARLIEST))
    until: Mapping[TopicPartition, int | None]
    if link.positions is not None:
        until = {key: link.positions.get(key, -1) + 1 for key in keys}
    else:
        until = await source.offsets(dict.fromkeys(keys, LATEST))
    target_first = await target.offsets(dict.fromkeys(there.values(), EARLIEST))
    target_ends = await target.ends(there.values())
    source_ends = await source.ends(keys)
    target_last = {remote: end.offset for remote, end in target_ends.items()}
    last = {key: end.offset for key, end in source_ends.items()}
    asked_from = target_first
    if from_ms is not None:
        later = await source.offsets(dict.fromkeys(keys, from_ms))
        first = {key: max(begins[key] or 0, _or(later[key], last[key] or 0)) for key in keys}
        later = await target.offsets(dict.fromkeys(there.values(), from_ms))
        asked_from = {
            remote: max(target_first[remote] or 0, _or(later[remote], target_last[remote] or 0)) for remote in later
        }

    jobs = []
    for key in keys:
        remote = remotes[key]
        start, end = first[key] or 0, last[key] or 0
        job = Job(*key, remote.topic, start, min(until[key] or 0, end), end, source_epoch=source_ends[key].epoch)
        if key in there:
            jobs.append(
                replace(
                    job,
                    target_start=target_first[remote] or 0,
                    target_end=target_last[remote] or 0,
                    cut=0 < start == begins[key],
                    asked_from=asked_from[remote] or 0,
                    target_epoch=target_ends[remote].epoch,
                )
            )
        else:
            absent = f"the target has no topic {remote.topic}"
            if remote.topic in theirs:
                counts = f"{theirs[remote.topic]} partitions, the source's {ours[key[0]]}"
                absent = f"the target's topic {remote.topic} has {counts}"
            jobs.append(replace(job, absent=absent))
    return sorted(jobs, key=lambda job: job.start - job.source_end)


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
