"""An internal topic of the worker: created when it is absent, only checked when it exists, refused with what to set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.admin import topic_plan
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan, ensure_topic
from mirror_connect.kafka_io.consumer.log_clients import LogClients

NAME = "connect-configs"
CONFIGS = TopicPlan.for_configs(NAME)
OFFSETS = TopicPlan.for_offsets("connect-offsets", 4, 2, {"min.insync.replicas": "1", "cleanup.policy": "delete"})
# For what comes in time, and for what does not.
LONG_S, SHORT_S = 60.0, 0.1


class FakeAdmin:
    """Topics with their partitions. `errors`: of the next metadata answers. `hidden_for`: how many more show no topic."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.policy = "compact"
        self.created: list[NewTopic] = []
        self.described = 0
        self.errors: list[KafkaError] = []
        self.hidden_for = 0
        self.creation_error: int | None = None
        self.describe_error: int | None = None
        self.on_create: Callable[[NewTopic], None] = self._add

    def _add(self, new: NewTopic) -> None:
        self.topics[new.topic] = new.num_partitions

    def list_topics(self, timeout: float) -> Any:
        if self.errors:
            raise KafkaException(self.errors.pop(0))
        if self.created and self.hidden_for:
            self.hidden_for -= 1
            return SimpleNamespace(topics={})
        topics = {name: SimpleNamespace(partitions=dict.fromkeys(range(count))) for name, count in self.topics.items()}
        return SimpleNamespace(topics=topics)

    def create_topics(self, new: Sequence[NewTopic], request_timeout: float) -> Mapping[str, Future[None]]:
        self.created += new
        self.on_create(new[0])
        return {new[0].topic: _answered(None, self.creation_error)}

    def describe_configs(self, asked: Sequence[ConfigResource], request_timeout: float) -> Mapping[Any, Future[Any]]:
        self.described += 1
        return {asked[0]: _answered({"cleanup.policy": SimpleNamespace(value=self.policy)}, self.describe_error)}


class Clients(LogClients):
    """LogClients with that admin client, and without a producer."""

    def __init__(self) -> None:
        super().__init__({"bootstrap.servers": "b:1"}, "worker")
        self.fake = FakeAdmin()

    @property
    def admin(self) -> Any:
        return self.fake

    def warm_up(self) -> None:
        pass


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    monkeypatch.setattr(topic_plan, "_LATER", 0.001)
    monkeypatch.setattr(topic_plan, "_SOON", 0.001)
    return Clients()


def _answered(result: Any, code: int | None) -> Future[Any]:
    future: Future[Any] = Future()
    if code is None:
        future.set_result(result)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


def test_an_absent_topic_is_created_compacted_with_the_settings_of_the_worker(clients: Clients) -> None:
    assert ensure_topic(clients, OFFSETS, LONG_S) == 4
    (new,) = clients.fake.created
    assert (new.topic, new.num_partitions, new.replication_factor) == ("connect-offsets", 4, 2)
    assert new.config == {"min.insync.replicas": "1", "cleanup.policy": "compact"}


def test_a_new_topic_is_waited_for_and_not_created_twice(clients: Clients) -> None:
    clients.fake.hidden_for = 3
    assert ensure_topic(clients, CONFIGS, LONG_S) == 1
    assert (clients.fake.hidden_for, len(clients.fake.created), clients.fake.described) == (0, 1, 0)


def test_a_topic_that_exists_is_not_changed(clients: Clients) -> None:
    clients.fake.topics["connect-offsets"] = 25
    assert ensure_topic(clients, OFFSETS, LONG_S) == 25
    assert (clients.fake.created, clients.fake.described) == ([], 1)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_would_lose_data_is_refused(clients: Clients, policy: str) -> None:
    clients.fake.topics[NAME] = 1
    clients.fake.policy = policy
    with pytest.raises(ConfigError, match=f"currently has 'cleanup.policy={policy}'") as refused:
        ensure_topic(clients, CONFIGS, LONG_S)
    assert refused.value.name == "config.storage.topic"


def test_a_topic_whose_configs_may_not_be_read_is_taken(clients: Clients) -> None:
    clients.fake.topics[NAME] = 1
    clients.fake.policy = "delete"
    clients.fake.describe_error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert ensure_topic(clients, CONFIGS, LONG_S) == 1


def test_a_config_topic_of_several_partitions_is_refused(clients: Clients) -> None:
    clients.fake.topics[NAME] = 2
    with pytest.raises(ConfigError, match="but found 2 partitions"):
        ensure_topic(clients, CONFIGS, LONG_S)


def test_a_topic_that_another_worker_creates_first_is_checked(clients: Clients) -> None:
    clients.fake.creation_error = KafkaError.TOPIC_ALREADY_EXISTS
    clients.fake.policy = "delete"
    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete"):
        ensure_topic(clients, CONFIGS, LONG_S)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="its_configs_are_shown"),
        pytest.param(KafkaError.TOPIC_AUTHORIZATION_FAILED, id="its_configs_neither"),
    ],
)
def test_a_topic_that_exists_and_is_not_shown_lacks_a_right(clients: Clients, answer: int | None) -> None:
    clients.fake.creation_error = KafkaError.TOPIC_ALREADY_EXISTS
    clients.fake.on_create = lambda _: None
    clients.fake.describe_error = answer
    with pytest.raises(NotAuthorized, match=f"topic {NAME} exists, but is not shown.*DESCRIBE"):
        ensure_topic(clients, CONFIGS, SHORT_S)


@pytest.mark.parametrize("answer", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_a_topic_that_a_busy_broker_does_not_know_yet_lacks_no_right(clients: Clients, answer: int) -> None:
    # The first request to create it had no answer in time.
    clients.fake.creation_error = KafkaError.TOPIC_ALREADY_EXISTS
    clients.fake.on_create = lambda _: None
    clients.fake.describe_error = answer
    with pytest.raises(ClusterUnreachable, match=f"topic {NAME} did not appear within 0.1 s"):
        ensure_topic(clients, CONFIGS, SHORT_S)


@pytest.mark.parametrize(
    ("code", "name", "value"),
    [
        (KafkaError.INVALID_REPLICATION_FACTOR, "offset.storage.replication.factor", "2"),
        (KafkaError.INVALID_PARTITIONS, "offset.storage.partitions", "4"),
        (KafkaError.INVALID_CONFIG, "offset.storage.*", None),
    ],
    ids=["replication_factor", "partitions", "configs"],
)
def test_an_impossible_setting_is_named(clients: Clients, code: int, name: str, value: str | None) -> None:
    clients.fake.creation_error = code
    with pytest.raises(ConfigError, match="topic connect-offsets can't be created") as refused:
        ensure_topic(clients, OFFSETS, LONG_S)
    assert (refused.value.name, refused.value.value) == (name, value)


def test_a_missing_right_to_create_it_ends_at_once(clients: Clients) -> None:
    clients.fake.creation_error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(NotAuthorized, match=f"topic {NAME} was not created"):
        ensure_topic(clients, CONFIGS, LONG_S)
    assert len(clients.fake.created) == 1


def test_a_cluster_that_answers_late_is_waited_for(clients: Clients) -> None:
    clients.fake.errors = [
        KafkaError(KafkaError._TRANSPORT),
        KafkaError(KafkaError.LEADER_NOT_AVAILABLE, retriable=True),
    ]
    assert ensure_topic(clients, CONFIGS, LONG_S) == 1


def test_a_cluster_that_does_not_answer_in_time_is_unreachable(clients: Clients) -> None:
    clients.fake.errors = [KafkaError(KafkaError._TRANSPORT)] * 100_000
    with pytest.raises(ClusterUnreachable, match=f"topic {NAME}: no broker answers"):
        ensure_topic(clients, CONFIGS, SHORT_S)


def test_a_topic_that_does_not_appear_in_time_is_named(clients: Clients) -> None:
    clients.fake.on_create = lambda _: None
    with pytest.raises(ClusterUnreachable, match=f"topic {NAME} did not appear within 0.1 s"):
        ensure_topic(clients, CONFIGS, SHORT_S)


def test_a_refused_login_ends_the_wait_for_an_answer(clients: Clients) -> None:
    clients.fake.list_topics = lambda timeout: time.sleep(5)  # type: ignore[method-assign]
    clients.note_error(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    with pytest.raises(NotAuthorized, match="refused the credentials"):
        ensure_topic(clients, CONFIGS, LONG_S)
