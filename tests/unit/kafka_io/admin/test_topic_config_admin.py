"""The configs of many topics, in several requests. Against librdkafka: tests/integration/test_topics_followed.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import AT_ONCE, Described, describe_topic_configs
from mirror_connect.kafka_io.protocol.topic_configs import DescribedConfigs, DescribeTopicConfigs

RETENTION = TopicConfig("retention.ms", "5", ConfigSource.TOPIC)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, DescribedConfigs]], list[int]]:
    def answer(topics: dict[str, DescribedConfigs]) -> list[int]:
        sizes: list[int] = []

        def ask(admin: ClusterAdmin, requests: list[DescribeTopicConfigs], what: str) -> list[list[DescribedConfigs]]:
            sizes.extend(len(request.topics) for request in requests)
            return [
                [topics.get(name, DescribedConfigs(name, 3, None, [])) for name in request.topics]
                for request in requests
            ]

        monkeypatch.setattr(ClusterAdmin, "ask", ask)
        return sizes

    return answer


def test_each_topic_is_told_refused_or_absent(
    answering: Callable[[dict[str, DescribedConfigs]], list[int]],
) -> None:
    there, denied = DescribedConfigs("there", 0, None, [RETENTION]), DescribedConfigs("denied", 29, "no rights", [])
    odd = DescribedConfigs("odd", 42, "cannot", [])
    answering({"there": there, "denied": denied, "odd": odd})
    admin = ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "source cluster", user=SOURCE_USER)
    found = describe_topic_configs(admin, {"there", "denied", "odd", "gone"})
    assert (found.configs, found.absent) == ({"there": [RETENTION]}, {"gone"})
    assert found.refused == {
        "denied": "The source cluster at 127.0.0.1:1 denied it (the configs of topic denied can't be read): no rights "
        "(plaintext): grant DESCRIBE_CONFIGS on topic denied to the source user",
        "odd": "the configs of topic odd can't be read: cannot (source cluster at 127.0.0.1:1)",
    }


def test_many_topics_are_many_requests_and_none_is_none(
    answering: Callable[[dict[str, DescribedConfigs]], list[int]],
) -> None:
    sizes = answering({})
    admin = ClusterAdmin({"bootstrap.servers": "127.0.0.1:1"}, "source cluster")
    assert describe_topic_configs(admin, ()) == Described()
    assert sizes == []
    assert len(describe_topic_configs(admin, [f"t{n}" for n in range(2 * AT_ONCE + 1)]).absent) == 2 * AT_ONCE + 1
    assert sizes == [AT_ONCE, AT_ONCE, 1]
