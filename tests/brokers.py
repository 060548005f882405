"""What tests with brokers share: settings, and clusters that are started together and always closed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from deploy.local import LocalCluster, start_all
from tests.waiting import PATIENCE_S, WaitTimedOut, wait_for_state

# A broker that lasts for the session and is never killed has nobody to tell in a hurry that it is there: half of the
# processor time that one takes while nothing happens.
UNHURRIED: Final = {
    "broker.heartbeat.interval.ms": "5000",
    "broker.session.timeout.ms": "30000",
    "metadata.max.idle.interval.ms": "0",
}

# Of a producer that flushes: a batch leaves when it is full, and the last one with the flush, for which nothing lingers.
# With a short linger, a busy machine cuts off small batches, and these may be merged.
FULL_BATCHES: Final = {"linger.ms": 10_000}

COORDINATOR_NOT_READY: Final = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}

# librdkafka's admin client says _NOENT where a broker that it asked has not heard of the partition's leader yet.
LEADER_NOT_READY: Final = {
    KafkaError._NOENT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}

ANSWERED_S: Final = 20.0

_Answer = TypeVar("_Answer")


@contextlib.contextmanager
def started(*clusters: LocalCluster) -> Iterator[tuple[LocalCluster, ...]]:
    """The clusters, started at the same time; closed at the end, however it comes."""
    with contextlib.ExitStack() as closing:
        for cluster in clusters:
            closing.callback(cluster.close)
        start_all(*clusters)
        yield clusters


def messages(
    cluster: LocalCluster, topic: str, partition: int, *, isolation: str = "read_uncommitted"
) -> Iterator[Message]:
    """librdkafka's messages of a partition, from its beginning to its present end."""
    consumer = Consumer(
        {
            **cluster.librdkafka(),
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "allow.auto.create.topics": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(PATIENCE_S)
            if message is None:  # neither a record nor the end of the partition
                raise WaitTimedOut(f"not within {PATIENCE_S:g} s: the broker of {topic}-{partition} answers")
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise AssertionError(f"{topic}-{partition}: {error.str()}")
    finally:
        consumer.close()


def flushed(producer: Producer) -> None:
    """Waits until brokers have answered to all that was produced."""
    if left := producer.flush(PATIENCE_S):
        raise WaitTimedOut(f"not within {PATIENCE_S:g} s: brokers answer to the last {left} records")


def commit(
    cluster: LocalCluster, group: str, topic: str, offset: int, metadata: str = "", *, partitions: Iterable[int] = (0,)
) -> None:
    """Sets the offset that a group without members has committed."""
    given = (metadata,) if metadata else ()
    asked = [TopicPartition(topic, partition, offset, *given) for partition in partitions]

    def taken() -> bool:
        (future,) = (
            cluster.admin()
            .alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, asked)], request_timeout=ANSWERED_S)
            .values()
        )
        try:
            answer = future.result(2 * ANSWERED_S)
        except TimeoutError:
            return False
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_NOT_READY:
                raise
            return False
        # What a coordinator that is still loading refuses is no error of the call.
        return not any(each.error for each in answer.topic_partitions)

    wait_for_state(taken, f"the coordinator of {group} takes offset {offset}")


def committed(cluster: LocalCluster, group: str, topic: str, partitions: Iterable[int] = (0,)) -> dict[int, int]:
    """Partition → offset that the group has committed; a partition without one is missing.

    A consumer asks: librdkafka's admin client may crash where a coordinator that is still loading refuses the request.
    """
    asked = [TopicPartition(topic, partition) for partition in partitions]
    found: list[TopicPartition] = []

    def answered() -> bool:
        try:
            found[:] = consumer.committed(asked, timeout=60)
        except KafkaException as error:
            # A coordinator that has just been chosen may refuse for a moment, and an answer may be late.
            if error.args[0].code() not in COORDINATOR_NOT_READY:
                raise
        return bool(found)

    with contextlib.closing(Consumer({**cluster.internal_librdkafka(), "group.id": group})) as consumer:
        wait_for_state(answered, f"the coordinator of {group} answers")
    return {each.partition: each.offset for each in found if each.offset >= 0}


def delete_before(cluster: LocalCluster, topic: str, offset: int, partition: int = 0) -> None:
    """Deletes the records of a partition in front of an offset."""
    place = TopicPartition(topic, partition, offset)

    def deleted() -> bool:
        asked = cluster.admin().delete_records([place], request_timeout=ANSWERED_S)
        return led(asked[place]) is not None

    wait_for_state(deleted, f"the leader of {topic}-{partition} deletes what is before {offset}", 360)


def led(future: Future[_Answer]) -> _Answer | None:
    """The answer of a partition's leader; None while librdkafka's admin client does not find one."""
    try:
        return future.result(2 * ANSWERED_S)
    except TimeoutError:
        return None
    except KafkaException as error:
        if error.args[0].code() not in LEADER_NOT_READY:
            raise
        return None


def hold_back(cluster: LocalCluster, client_id: str, quota: str, rate: int | None) -> None:
    """Gives a client a quota, such as `consumer_byte_rate`, or takes it away."""
    whom = ["--entity-type", "clients", "--entity-name", client_id]
    change = ["--delete-config", quota] if rate is None else ["--add-config", f"{quota}={rate}"]
    connect = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
    cluster.run_tool("kafka.admin.ConfigCommand", [*connect, "--alter", *whom, *change])
