from collections.abc import Iterable
from typing import cast

from mirror_connect.verify.reading import ClusterReader
from mirror_connect.verify.topic_ids import TopicIds


class Cluster:
    def __init__(self, **ids: bytes | None) -> None:
        self.ids = ids

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        return {topic: self.ids.get(topic) for topic in topics}


def ids_of(source: Cluster, target: Cluster) -> TopicIds:
    return TopicIds(cast("ClusterReader", source), cast("ClusterReader", target))


async def test_a_topic_that_has_another_id_than_before_is_found_on_its_side() -> None:
    source, target = Cluster(a=b"1", b=b"2"), Cluster(ra=b"3", rb=b"4")
    ids = ids_of(source, target)
    topics = {"a": "ra", "b": "rb"}
    assert await ids.changed(topics) == []
    source.ids["a"] = b"9"
    target.ids["rb"] = b"8"
    assert await ids.changed(topics) == [("a", "ra", True), ("b", "rb", False)]
    assert await ids.changed(topics) == []


async def test_without_ids_no_change_is_noticed() -> None:
    source, target = Cluster(a=b"1"), Cluster()
    ids = ids_of(source, target)
    await ids.changed({"a": "ra"})
    source.ids["a"] = None
    assert await ids.changed({"a": "ra"}) == []
    # An older broker answered in between: the id of before still counts.
    source.ids["a"] = b"9"
    assert await ids.changed({"a": "ra"}) == [("a", "ra", True)]
