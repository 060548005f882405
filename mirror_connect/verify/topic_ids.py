"""Notices topics that were deleted and created again: they have the same name and another id."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_connect.verify.reading import ClusterReader


class TopicIds:
    """The topic ids of both clusters. Brokers before 2.8 have none, so there no change is noticed."""

    def __init__(self, source: ClusterReader, target: ClusterReader) -> None:
        self._source = source
        self._target = target
        self._known: dict[tuple[str, str], bytes] = {}

    async def changed(self, topics: Mapping[str, str]) -> list[tuple[str, str, bool]]:
        """Topics whose id has changed since the last call: source name, remote name, whether the source's id changed.

        It also refreshes the partitions' leaders. ClusterUnreachable, NotAuthorized.
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

    def _is_another(self, role: str, topic: str, found: bytes | None) -> bool:
        known = self._known.get((role, topic))
        if found is not None:
            self._known[role, topic] = found
        return None not in (known, found) and known != found
