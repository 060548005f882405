"""The topics and partitions of a link at one moment: what each of them lags, and the line of a problem with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.herder.link_views import PartitionView, TopicView
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

    def topic(self, topic: str, parts: Sequence[tuple[Member, Sequence[TopicPartition]]]) -> TopicView:
        """A source topic, by the partitions that each connector copies of it."""
        lags: list[Lag] = []
        rates: list[Rate | None] = []
        latency: Latency | None = None
        remote_topic, count, line = None, 0, None
        for member, partitions in parts:
            count += len(partitions)
            metrics = member.metrics
            if metrics is None:
                lags.append(Lag(None, None, unknown=len(partitions)))
                continue
            telling = self._telling[member.view.name]
            lags.append(metrics.lag(partitions, telling, self._now_ms))
            told = (metrics.known(partition, telling) for partition in partitions)
            known = [each for each in told if each is not None]
            rates += [each.growth.rate(self._now) for each in known]
            if known:
                remote_topic = known[0].told.remote_topic
                latency = metrics.latency_of_topic(topic, self._now)
            if self._lines:
                found = (self._line(partition, remote_topic) for partition in partitions)
                line = line or next((each for each in found if each is not None), None)
        return TopicView(topic, remote_topic, count, Lag.of_all(lags), Rate.of_all(rates), latency, line)

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

    def remote_topic(self, member: Member, partition: TopicPartition) -> str | None:
        """The topic on the target; None if no task has told it."""
        if member.metrics is None:
            return None
        known = member.metrics.known(partition, self._telling[member.view.name])
        return None if known is None else known.told.remote_topic

    def _line(self, partition: TopicPartition, remote_topic: str | None) -> str | None:
        names = [str(partition), partition.topic]
        if remote_topic is not None:
            names += [f"{remote_topic}-{partition.partition}", remote_topic]
        return next((self._lines[name] for name in names if name in self._lines), None)
