"""The topics and partitions of a link at one moment: what each of them lags, and the line of a problem with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirror_connect.app.herder.link_parts import Part
from mirror_connect.app.herder.link_views import PartitionView, TopicOrder, TopicView
from mirror_connect.app.herder.links import Link, Member
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.latencies import latency_of_all
from mirror_connect.connectors.partitions import TopicPartition


class TopicReading:
    """See the module. `lines`: of problems, by the name of a topic or partition of the source or the target.

    `now`: seconds of the clock of reports; `now_ms`: milliseconds since 1970.
    """

    def __init__(self, link: Link, lines: Mapping[str, str], now: float, now_ms: int) -> None:
        self._lines = lines
        self._copying = link.copying
        self._parts = {each.view.name: each.parts(now, now_ms) for each in link.copying}

    def topics(self, search: str) -> list[str]:
        """The topics with this text, in any case, in their name or in that of their remote topic; by name."""
        names = sorted({topic for member in self._copying for topic in member.assigned.topics})
        text = search.lower()
        if not text:
            return names
        return [each for each in names if text in each.lower() or text in (self.remote_topic(each) or "").lower()]

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic are copied."""
        return sum(len(member.assigned.topics.get(topic, ())) for member in self._copying)

    def rank(self, topic: str, order: TopicOrder) -> tuple[int, float]:
        """Where a topic comes: the largest figure first, and the unknown ones before those that are 0."""
        value: float | None
        if order is TopicOrder.RATE:
            rate = self._rate(topic)
            value = None if rate is None else rate.records
        else:
            lag = self._lag(topic)
            value = lag.records if order is TopicOrder.LAG else lag.seconds
        if value is None:
            return 1, 0.0
        return (0, -value) if value else (2, 0.0)

    def topic(self, topic: str) -> TopicView:
        """A source topic."""
        remote_topic, rate = self.remote_topic(topic), self._rate(topic)
        latency: Latency | None = None
        line: str | None = None
        if rate is not None:
            counted = (part.latencies(topic) for parts, _ in self._of(topic) for part in parts)
            latency = latency_of_all(each for each in counted if each is not None)
        for _, partitions in self._of(topic):
            if self._lines and line is None:
                found = (self._line(partition, remote_topic) for partition in partitions)
                line = next((each for each in found if each is not None), None)
        return TopicView(topic, remote_topic, self.partitions(topic), self._lag(topic), rate, latency, line)

    def partition(self, member: Member, partition: TopicPartition) -> PartitionView:
        """A source partition."""
        task = member.assigned.partitions[partition]
        told = (part.partition(partition) for part in self._parts[member.view.name])
        known = next((each for each in told if each is not None), None)
        if known is None:
            line = self._line(partition, None)
            return PartitionView(partition.partition, None, None, None, None, None, None, task, line)
        return PartitionView(
            partition=partition.partition,
            source_offset=known.source_offset,
            log_end=known.log_end,
            lag_records=known.lag_records,
            lag_seconds=known.lag_seconds,
            records=known.records,
            bytes=known.bytes,
            task=task,
            problem=self._line(partition, known.remote_topic),
        )

    def remote_topic(self, topic: str) -> str | None:
        """The topic on the target; None if no task has told it."""
        told = (part.remote_topic(partitions) for parts, partitions in self._of(topic) for part in parts)
        return next((each for each in told if each is not None), None)

    def _of(self, topic: str) -> list[tuple[Sequence[Part], Sequence[TopicPartition]]]:
        """What each connector copies of a topic, with what is known of it. Mostly one copies all of it."""
        return [
            (self._parts[member.view.name], member.assigned.topics[topic])
            for member in self._copying
            if topic in member.assigned.topics
        ]

    def _lag(self, topic: str) -> Lag:
        lags = [
            _merged([part.lag(partitions) for part in parts], len(partitions)) for parts, partitions in self._of(topic)
        ]
        return lags[0] if len(lags) == 1 else Lag.of_all(lags)

    def _rate(self, topic: str) -> Rate | None:
        return Rate.of_all(
            rate for parts, partitions in self._of(topic) for part in parts for rate in part.rates(partitions)
        )

    def _line(self, partition: TopicPartition, remote_topic: str | None) -> str | None:
        names = [str(partition), partition.topic]
        if remote_topic is not None:
            names += [f"{remote_topic}-{partition.partition}", remote_topic]
        return next((self._lines[name] for name in names if name in self._lines), None)


def _merged(lags: Sequence[Lag], partitions: int) -> Lag:
    """The lag of so many partitions, of which each worker knows some."""
    if len(lags) == 1:
        return lags[0]
    known = sum(partitions - each.unknown for each in lags)
    return replace(Lag.of_all(lags), unknown=max(0, partitions - known))
