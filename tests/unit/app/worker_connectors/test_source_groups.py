"""Which groups of a source are to be translated, by fake clusters: kinds, filters, groups that can't be read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.app.worker_connectors import source_groups
from mirror_connect.app.worker_connectors.source_groups import SeenGroups, see_groups
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, checkpoint_selection
from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.kafka_io.admin.consumer_groups import GroupKind, ListedGroup, Read

KINDS = {
    "g1": GroupKind.CONSUMER,
    "g2": GroupKind.CONSUMER,
    "other": GroupKind.CONSUMER,
    "g-shared": GroupKind.SHARE,
    "g-streams": GroupKind.STREAMS,
    "g-connect": GroupKind.OTHER,
}


class Source:
    """The source cluster and its groups: `committed` by group → topics, `unreadable` by group → why."""

    def __init__(self) -> None:
        self.committed: dict[str, Sequence[str]] = {"g1": ["orders"], "g2": ["else"]}
        self.unreadable: dict[str, str] = {}
        self.failure: Exception | None = None
        self.silent = False
        self.read_groups: Sequence[str] = ()
        self.closed = 0

    async def listed(self) -> Mapping[str, ListedGroup]:
        if self.silent:
            await asyncio.sleep(60)
        if self.failure is not None:
            raise self.failure
        return {name: ListedGroup(kind, active=False) for name, kind in KINDS.items()}

    async def read(self, groups: Sequence[str]) -> Read:
        await asyncio.sleep(0)
        self.read_groups = groups
        committed = {
            group: {TopicPartition(topic, 0): CommittedOffset(7) for topic in topics}
            for group, topics in self.committed.items()
        }
        return Read(committed, self.unreadable)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(source_groups, "Cluster", lambda *_, **__: made)
    monkeypatch.setattr(source_groups, "ConsumerGroups", lambda *_: made)
    return made


def seen(timeout: float = 30.0) -> SeenGroups:
    config = {
        "name": "c",
        "connector.class": "MirrorCheckpoint",
        "source.cluster.alias": "A",
        "groups": "g.*",
        "topics": "orders",
    }
    return see_groups({}, "id", checkpoint_selection(MirrorCheckpoint().settings(config)), timeout)


def test_a_group_is_wanted_if_its_name_and_one_of_its_topics_are(source: Source) -> None:
    assert (seen().wanted, source.read_groups) == (("g1",), ["g1", "g2"])


def test_all_groups_are_listed_also_those_that_no_setting_names(source: Source) -> None:
    assert seen().listed == frozenset(KINDS)


def test_only_share_and_streams_groups_that_are_named_are_untranslatable(source: Source) -> None:
    assert seen().untranslatable == {"g-shared": "share", "g-streams": "streams"}


def test_a_group_that_can_not_be_read_is_not_wanted_and_has_its_reason(source: Source) -> None:
    del source.committed["g1"]
    source.unreadable["g1"] = "grant DESCRIBE"
    found = seen()
    assert (found.wanted, found.unreadable) == ((), {"g1": "grant DESCRIBE"})


def test_a_source_that_does_not_answer_in_time_is_unreachable(source: Source) -> None:
    source.silent = True
    with pytest.raises(ClusterUnreachable, match=r"did not list its groups within 0\.05 s"):
        seen(timeout=0.05)
    assert source.closed == 1


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        pytest.param(
            ClusterUnreachable("no broker answers"),
            "The source cluster cannot list its groups: no broker answers",
            id="unreachable",
        ),
        pytest.param(NotAuthorized("grant DESCRIBE on the cluster"), "grant DESCRIBE on the cluster", id="denied"),
    ],
)
def test_a_failure_says_what_failed_and_closes_the_connections(source: Source, failure: Exception, text: str) -> None:
    source.failure = failure
    with pytest.raises(type(failure)) as caught:
        seen()
    assert (str(caught.value), source.closed) == (text, 1)
