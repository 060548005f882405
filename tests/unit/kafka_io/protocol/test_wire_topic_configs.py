"""DescribeConfigs held against aiokafka's struct; against librdkafka: tests/integration/test_topics_followed.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.protocol.admin import DescribeConfigsRequest_v1, DescribeConfigsResponse_v1

from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import AT_ONCE, Described, describe_topic_configs
from mirror_connect.kafka_io.protocol.wire_codec import Reader, Writer
from mirror_connect.kafka_io.protocol.wire_topic_configs import DescribedConfigs, DescribeTopicConfigs

RETENTION = TopicConfig("retention.ms", "5", ConfigSource.TOPIC)
SECRET = TopicConfig("secret", None, ConfigSource.STATIC_BROKER, read_only=True, sensitive=True)


def encoded(request: DescribeTopicConfigs, version: int) -> bytes:
    writer = Writer(flexible=version >= 4)
    request.encode(version, writer)
    return b"".join(writer.buffers())


def decoded(version: int, body: bytes) -> list[DescribedConfigs]:
    return DescribeTopicConfigs(()).decode(version, Reader(memoryview(body), flexible=version >= 4))


@pytest.mark.parametrize("names", [None, [], ["retention.ms", "cleanup.policy"]])
def test_the_request_of_version_one_is_aiokafkas(names: list[str] | None) -> None:
    resources = [(2, topic, names) for topic in ("orders", "bills")]
    ours = DescribeTopicConfigs(("orders", "bills"), names)
    assert encoded(ours, 1) == DescribeConfigsRequest_v1(resources, False).encode()


def test_the_flexible_request_has_compact_nulls_and_tags() -> None:
    assert encoded(DescribeTopicConfigs(("t",)), 4) == bytes.fromhex("02 02 02 74 00 00 00 00 00")


def test_the_answer_of_version_one_is_aiokafkas() -> None:
    synonyms = [("retention.ms", "5", 1), ("log.retention.ms", None, 5)]
    configs = [("retention.ms", "5", False, 1, False, synonyms), ("secret", None, True, 4, True, [])]
    later = [("retention.ms", "5", False, 99, False, [])]
    answer = [(0, None, 2, "orders", configs), (29, "no", 2, "bills", []), (0, None, 2, "later", later)]
    assert decoded(1, DescribeConfigsResponse_v1(0, answer).encode()) == [
        DescribedConfigs("orders", 0, None, [RETENTION, SECRET]),
        DescribedConfigs("bills", 29, "no", []),
        DescribedConfigs("later", 0, None, [TopicConfig("retention.ms", "5", ConfigSource.UNKNOWN)]),
    ]


def test_a_flexible_answer_is_read_with_types_documentation_and_tags() -> None:
    config = b"\x0dretention.ms\x025\x00\x01\x00" + b"\x02\x02n\x00\x05\x00" + b"\x05\x04doc\x00"
    body = bytes.fromhex("00000000 02 0000 00 02 07") + b"orders" + b"\x02" + config + bytes.fromhex("00 00")
    assert decoded(4, body) == [DescribedConfigs("orders", 0, None, [RETENTION])]


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
