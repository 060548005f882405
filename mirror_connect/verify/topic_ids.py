"""Whether topics are still those that they were: one that was deleted and created again has the name and another id."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_connect.verify.reading import ClusterReader


class TopicIds:
    """Of both clusters; brokers before 2.8 have none, and nothing is known to be another there."""

    def __init__(self, source: ClusterReader, target: ClusterReader) -> None:
        self._source = source
        self._target = target
        self._known: dict[tuple[str, str], bytes] = {}

    async def changed(self, topics: Mapping[str, str]) -> list[tuple[str, str, bool]]:
        """Of source topics and their remote ones: (both names, whether the source's) is another since this was last asked.

        Learns where the partitions' leaders are besides. ClusterUnreachable, NotAuthorized.
        """
        ours = await self._source.topic_ids(topics)
        theirs = await self._target.topic_ids(topics.values())
        found = []
        for topic, remote in topics.items():
            at_source = self._is_another("source", topic, ours[topic])
            on_target = self._is_another("target", remote, theirs[remote])
            if at_source or on_target:
                found.append((topic, remote, at_source))
        return found

    def _is_another(self, place: str, topic: str, found: bytes | None) -> bool:
        known = self._known.get((place, topic))
        if found is not None:
            self._known[place, topic] = found
        return None not in (known, found) and known != found
