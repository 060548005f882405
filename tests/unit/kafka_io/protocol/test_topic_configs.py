"""DescribeConfigs as bytes: aiokafka's struct in version 1, written-out bytes in the flexible one."""

from __future__ import annotations

import pytest
from aiokafka.protocol.admin import DescribeConfigsRequest_v1, DescribeConfigsResponse_v1

from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.kafka_io.protocol.topic_configs import DescribedConfigs, DescribeTopicConfigs
from tests.fakes.request_bytes import decoded, encoded

RETENTION = TopicConfig("retention.ms", "5", ConfigSource.TOPIC)
SECRET = TopicConfig("secret", None, ConfigSource.STATIC_BROKER, read_only=True, sensitive=True)


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
    assert decoded(DescribeTopicConfigs(()), 1, DescribeConfigsResponse_v1(0, answer).encode()) == [
        DescribedConfigs("orders", 0, None, [RETENTION, SECRET]),
        DescribedConfigs("bills", 29, "no", []),
        DescribedConfigs("later", 0, None, [TopicConfig("retention.ms", "5", ConfigSource.UNKNOWN)]),
    ]


def test_a_flexible_answer_is_read_with_types_documentation_and_tags() -> None:
    config = b"\x0dretention.ms\x025\x00\x01\x00" + b"\x02\x02n\x00\x05\x00" + b"\x05\x04doc\x00"
    body = bytes.fromhex("00000000 02 0000 00 02 07") + b"orders" + b"\x02" + config + bytes.fromhex("00 00")
    assert decoded(DescribeTopicConfigs(()), 4, body) == [DescribedConfigs("orders", 0, None, [RETENTION])]
