"""Where groups are to go on at the target: committed positions, offset syncs and runs in, checkpoints out.

Runs (offset_run_index.py) say the very record as long as they are of today's topics; where they end, or there are none,
offset syncs say what MirrorMaker would (offset_sync_store.py), but for syncs of a source topic that was deleted and made
again since. Rules of MirrorCheckpointTask (4.3.1) around that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint, checkpointed_topic
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.translation.offset_run_index import RunIndex, translated
from mirror_connect.connectors.translation.offset_runs import NO_ID, Segment
from mirror_connect.connectors.translation.offset_sync_store import OffsetSyncStore
from mirror_connect.connectors.translation.recent_partitions import MOST_PARTITIONS, RecentPartitions

# (topic, partition) → (offset to read next, the client's own note)
Committed = Mapping[tuple[str, int], tuple[int, str]]
# The id that a topic has today, None if that isn't known.
TopicId = Callable[[str], bytes | None]


class PositionTranslator:
    """What is known of partitions, and of the topics that `accepts` lets through where groups are.

    A user's expression or class may take long for a name, and the topics of mappings hold any: nothing is asked of these.
    `judge` asks of those of committed positions, before `checkpoints`.
    `remote_topic`: what a source topic is called in checkpoints.
    `must_read_to_end` as for OffsetSyncStore: earlier checkpoints could not be read.
    """

    def __init__(
        self,
        policy: DefaultReplicationPolicy,
        aliases: tuple[str, str],
        accepts: Callable[[str], bool],
        *,
        must_read_to_end: bool = False,
    ) -> None:
        self._policy = policy
        self._source_alias, self._target_alias = aliases
        self._accepts = accepts
        # The answer never changes.
        self._accepted: dict[str, bool] = {}
        self.remote_topic = cache(self._remote_topic)
        self._syncs = OffsetSyncStore(must_read_to_end=must_read_to_end, most=MOST_PARTITIONS)
        self._runs = RecentPartitions[RunIndex](MOST_PARTITIONS)

    def add_sync(self, key: bytes | None, value: bytes | None) -> None:
        """The next record of the offset-syncs topic. UnreadableRecord: the caller skips it."""
        self._syncs.insert(OffsetSync.decode(key, value))

    def add_runs(self, key: bytes | None, value: bytes | None) -> None:
        """The next record of the topic of runs. UnreadableRecord: the caller skips it."""
        segment = Segment.decode(key, value)
        partition = TopicPartition(segment.topic, segment.partition)
        index = self._runs.get(partition)
        if index is None:
            index = RunIndex()
        index.add(segment)
        self._runs.put(partition, index)

    @property
    def crowded(self) -> str | None:
        """One line if there were too many partitions to keep all."""
        if not self._syncs.crowded and not self._runs.crowded:
            return None
        return (
            f"The topics of offset syncs and runs tell of more than {MOST_PARTITIONS} partitions: positions in those that "
            "have gone longest without a record there are not translated. Look who writes to these topics"
        )

    def has_runs(self, topics: Collection[str]) -> bool:
        """Whether positions in any of these topics can be translated by runs; without topics, whether there are any runs."""
        return any(not topics or partition.topic in topics for partition in self._runs)

    def syncs_read_to_end(self) -> None:
        """The offset-syncs topic has been read to where it ended; before this no sync translates anything."""
        self._syncs.read_to_end()

    def _remote_topic(self, topic: str) -> str:
        return checkpointed_topic(self._policy, self._source_alias, self._target_alias, topic)

    def accepted(self, committed: Committed) -> set[str]:
        """The topics of these positions that are translated."""
        return {topic for topic, _ in committed if self._is_accepted(topic)}

    def judge(self, topics: Collection[str], judge: Callable[[Collection[str]], None]) -> None:
        """Blocking: finds out which of these are translated, and forgets others. `judge`, as of Names, hears of new ones.

        ConfigError for an expression that takes too long.
        """
        known = self._accepted
        new = [topic for topic in topics if topic not in known]
        if new:
            judge(new)
        self._accepted = {topic: known[topic] if topic in known else self._accepts(topic) for topic in topics}

    def _is_accepted(self, topic: str) -> bool:
        if topic not in self._accepted:
            self._accepted[topic] = self._accepts(topic)
        return self._accepted[topic]

    def checkpoints(self, group: str, committed: Committed, source_id: TopicId, target_id: TopicId) -> list[Checkpoint]:
        """A group's checkpoints for what is committed at the source; none for what can't be translated."""
        found = []
        for (topic, partition), (upstream, metadata) in sorted(committed.items()):
            if not self._is_accepted(topic):
                continue
            remote = self.remote_topic(topic)
            ids = source_id(topic) or NO_ID, target_id(remote) or NO_ID
            downstream = self._translated(TopicPartition(topic, partition), upstream, ids)
            if downstream is not None and downstream >= 0:
                found.append(Checkpoint(group, remote, partition, upstream, downstream, metadata))
        return found

    def _translated(self, partition: TopicPartition, upstream: int, ids: tuple[bytes, bytes]) -> int | None:
        runs, by_syncs = self._runs.get(partition), self._syncs.translate(*partition, upstream)
        if runs is None or runs.belongs_to(*ids):
            return translated(None if runs is None else runs.translate(upstream), by_syncs)
        # Runs of a topic that was deleted since then say nothing of the one that has its name now, and neither do its syncs:
        # they lead among its records. Those of the new topic lie behind.
        among_former = by_syncs is not None and 0 <= by_syncs < runs.end and runs.has_target(ids[1])
        return None if among_former else by_syncs
