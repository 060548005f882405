"""The topics and partitions of a link at one moment: what each of them lags, and the line of a problem with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.herder.link_views import PartitionView, TopicOrder, TopicView
from mirror_connect.app.herder.links import Link, Member
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.connectors.partitions import TopicPartition


class TopicReading:
    """See the module. `lines`: of problems, by the name of a topic or partition of the source or the target.

    `now`: seconds of the clock of reports; `now_ms`: milliseconds since 1970.
    """

    def __init__(self, link: Link, lines: Mapping[str, str], now: float, now_ms: int) -> None:
        self._lines = lines
        self._now = now
        self._now_ms = now_ms
        self._telling = {each.view.name: each.metrics.telling(now) for each in link.copying if each.metrics is not None}
        self._copying = link.copying

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
        for member, partitions in self._parts(topic):
            if rate is not None and member.metrics is not None:
                latency = latency or member.metrics.latency_of_topic(topic, self._now)
            if self._lines and line is None:
                found = (self._line(partition, remote_topic) for partition in partitions)
                line = next((each for each in found if each is not None), None)
        return TopicView(topic, remote_topic, self.partitions(topic), self._lag(topic), rate, latency, line)

    def partition(self, member: Member, partition: TopicPartition) -> PartitionView:
        """A source partition."""
        task, metrics = member.assigned.partitions[partition], member.metrics
        telling = self._telling.get(member.view.name, {})
        known = None if metrics is None else metrics.known(partition, telling)
        if metrics is None or known is None:
            line = self._line(partition, None)
            return PartitionView(partition.partition, None, None, None, None, None, None, task, line)
        lag = metrics.lag([partition], telling, self._now_ms)
        return PartitionView(
            partition=partition.partition,
            source_offset=known.told.source_offset,
            log_end=known.told.log_end,
            lag_records=lag.records,
            lag_seconds=lag.seconds,
            records=known.growth.records,
            bytes=known.growth.bytes,
            task=task,
            problem=self._line(partition, known.told.remote_topic),
        )

    def remote_topic(self, topic: str) -> str | None:
        """The topic on the target; None if no task has told it."""
        for member, partitions in self._parts(topic):
            if member.metrics is not None:
                told = (member.metrics.partitions.get(partition) for partition in partitions)
                if (known := next((each for each in told if each is not None), None)) is not None:
                    return known.told.remote_topic
        return None

    def _parts(self, topic: str) -> list[tuple[Member, Sequence[TopicPartition]]]:
        """What each connector copies of a topic. Mostly one copies all of it."""
        return [(member, member.assigned.topics[topic]) for member in self._copying if topic in member.assigned.topics]

    def _lag(self, topic: str) -> Lag:
        lags = [
            Lag(None, None, unknown=len(partitions))
            if member.metrics is None
            else member.metrics.lag(partitions, self._telling[member.view.name], self._now_ms)
            for member, partitions in self._parts(topic)
        ]
        return lags[0] if len(lags) == 1 else Lag.of_all(lags)

    def _rate(self, topic: str) -> Rate | None:
        rates = []
        for member, partitions in self._parts(topic):
            if member.metrics is not None:
                telling = self._telling[member.view.name]
                known = (member.metrics.known(partition, telling) for partition in partitions)
                rates += [each.growth.rate(self._now) for each in known if each is not None]
        return Rate.of_all(rates)

    def _line(self, partition: TopicPartition, remote_topic: str | None) -> str | None:
        names = [str(partition), partition.topic]
        if remote_topic is not None:
            names += [f"{remote_topic}-{partition.partition}", remote_topic]
        return next((self._lines[name] for name in names if name in self._lines), None)
