from collections.abc import Callable, Mapping

import pytest

from mirror_connect.connectors.mirror.settings import (
    client_id,
    producer_overrides,
    source_admin,
    source_consumer,
    source_producer,
    target_admin,
    target_consumer,
    target_producer,
)


def test_a_kind_wins_over_the_cluster_and_the_side_over_both() -> None:
    config = {
        "source.cluster.bootstrap.servers": "c:1",
        "source.cluster.ssl.protocol": "c",
        "source.cluster.sasl.mechanism": "c",
        "consumer.ssl.protocol": "k",
        "consumer.sasl.mechanism": "k",
        "source.consumer.sasl.mechanism": "s",
    }
    properties = source_consumer(config)
    assert (properties["bootstrap.servers"], properties["ssl.protocol"], properties["sasl.mechanism"]) == (
        "c:1",
        "k",
        "s",
    )


@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceConsumerConfig")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceConsumerConfigWithSourcePrefix")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceProducerConfig")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceProducerConfigWithSourcePrefix")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceAdminConfig")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testSourceAdminConfigWithSourcePrefix")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testTargetAdminConfig")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testTargetAdminConfigWithSourcePrefix")
@pytest.mark.parametrize(
    ("properties", "side", "kind"),
    [
        (source_consumer, "source", "consumer"),
        (target_consumer, "target", "consumer"),
        (source_producer, "source", "producer"),
        (target_producer, "target", "producer"),
        (source_admin, "source", "admin"),
        (target_admin, "target", "admin"),
    ],
)
def test_each_client_hears_its_kind_and_more_its_side(
    properties: Callable[[Mapping[str, str]], dict[str, str]], side: str, kind: str
) -> None:
    of_kind = {f"{each}.client.rack": each for each in ("consumer", "producer", "admin")}
    of_sides = {f"{each}.{kind}.client.rack": each for each in ("source", "target")}
    assert [properties(config)["client.rack"] for config in (of_kind, of_kind | of_sides)] == [kind, side]


def test_cluster_properties_other_than_address_and_security_are_dropped() -> None:
    assert source_admin({"source.cluster.retries": "1", "source.cluster.alias": "A"}) == {}


def test_consumers_never_commit_and_begin_at_the_earliest_record() -> None:
    assert source_consumer({"consumer.enable.auto.commit": "true"}) == {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }


def test_where_a_consumer_begins_may_be_set() -> None:
    assert source_consumer({"consumer.auto.offset.reset": "latest"})["auto.offset.reset"] == "latest"


def test_the_poll_timeout_of_the_connector_does_not_reach_the_consumer() -> None:
    assert "poll.timeout.ms" not in source_consumer({"consumer.poll.timeout.ms": "5"})


def test_sides_do_not_mix() -> None:
    config = {"source.admin.retries": "1", "target.admin.retries": "2", "target.producer.acks": "1"}
    assert (source_admin(config), target_admin(config), target_producer(config)) == (
        {"retries": "1"},
        {"retries": "2"},
        {"acks": "1"},
    )


def test_producer_overrides_are_for_the_data_only() -> None:
    config = {"producer.override.linger.ms": "5", "producer.acks": "all"}
    assert (producer_overrides(config), target_producer(config)) == ({"linger.ms": "5"}, {"acks": "all"})


def test_a_client_id_names_flow_connector_task_and_role() -> None:
    config = {"source.cluster.alias": "A", "target.cluster.alias": "B", "name": "mm2"}
    assert client_id(config, "replication-consumer", task=0) == "A->B|mm2-0|replication-consumer"


def test_a_configured_client_id_is_put_in_front() -> None:
    config = {"source.cluster.alias": "A", "target.cluster.alias": "B", "name": "mm2"}
    assert client_id(config, "replication-source-admin", configured="x") == "x|A->B|mm2|replication-source-admin"
