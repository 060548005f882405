"""What an admin call raises: no answer means "try again", a refusal does not."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin import admin
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class FailingClient:
    """Stands for librdkafka's: every topic that is to be created meets `code`."""

    code = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def poll(self, _seconds: float) -> None:
        pass

    def create_topics(self, topics: list[Any], **_: float) -> dict[str, Future[None]]:
        failed: Future[None] = Future()
        failed.set_exception(KafkaException(KafkaError(self.code)))
        return {topic.topic: failed for topic in topics}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterAdmin:
    monkeypatch.setattr(admin, "AdminClient", FailingClient)
    return ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(KafkaError._TRANSPORT, id="the_connection_broke"),
        pytest.param(KafkaError._TIMED_OUT, id="no_answer_in_time"),
        pytest.param(KafkaError._PARTIAL, id="an_answer_that_names_no_broker"),
        pytest.param(KafkaError._DESTROY_BROKER, id="lost_with_a_bootstrap_handle"),
    ],
)
def test_a_request_without_an_answer_means_that_the_cluster_is_unreachable(
    cluster: ClusterAdmin, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(FailingClient, "code", code)
    with pytest.raises(ClusterUnreachable, match="target cluster at a:1"):
        cluster.create_topic("orders", 1, 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(KafkaError.TOPIC_ALREADY_EXISTS, AdminError, id="refused"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, id="denied"),
    ],
)
def test_a_refusal_keeps_its_kind(
    cluster: ClusterAdmin, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[Exception]
) -> None:
    monkeypatch.setattr(FailingClient, "code", code)
    with pytest.raises(expected, match="topic orders was not created"):
        cluster.create_topic("orders", 1, 1)
