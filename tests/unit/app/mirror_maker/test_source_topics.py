"""A group rebalances when the topics that it shares have changed, also those of other members only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mirror_connect.app.mirror_maker.source_topics import SourceTopics
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.kafka_io.protocol.metadata import Metadata


class Brokers:
    def __init__(self) -> None:
        self.counts = {"t": 2, "u": 1}

    async def any_node(self, request: Metadata) -> SimpleNamespace:
        return SimpleNamespace(
            topics=[SimpleNamespace(name=name, partitions=[0] * count, error=0) for name, count in self.counts.items()]
        )


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def topics(brokers: Brokers) -> SourceTopics:
    topics = SourceTopics(brokers, TopicChoice("t", excludes=False))  # type: ignore[arg-type]
    assert await topics.choose() == {"t"}
    return topics


@pytest.mark.parametrize("leads", [True, False])
async def test_the_leader_sees_that_a_topic_of_another_member_grows(
    brokers: Brokers, topics: SourceTopics, leads: bool
) -> None:
    if leads:
        assert await topics.share(frozenset({"t", "u"})) == {"t": 2, "u": 1}
    before = await topics.have_changed()
    brokers.counts["u"] = 2
    assert (before, await topics.have_changed()) == (False, leads)


async def test_the_leader_sees_that_it_has_shared_too_few_partitions(brokers: Brokers, topics: SourceTopics) -> None:
    brokers.counts["t"] = 1
    await topics.share(frozenset({"t"}))
    brokers.counts["t"] = 2
    assert await topics.have_changed()


async def test_who_joins_again_leads_no_more(brokers: Brokers, topics: SourceTopics) -> None:
    await topics.share(frozenset({"t", "u"}))
    await topics.choose()
    brokers.counts["u"] = 2
    assert not await topics.have_changed()


async def test_each_member_sees_that_its_own_topics_grow(brokers: Brokers, topics: SourceTopics) -> None:
    brokers.counts["t"] = 3
    assert await topics.have_changed()
