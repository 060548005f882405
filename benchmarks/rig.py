"""The two brokers that everything is measured between, and what is asked of them while it is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from benchmarks.broker_socket import BrokerSocket
from benchmarks.client_quotas import LimitConsumers
from deploy.local import Listener, LocalCluster, start_all
from deploy.local.broker_config import SCRAM
from deploy.local.connect import KAFKA_JVM
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.error_codes import error_name
from mirror_connect.kafka_io.protocol.log_offsets import LATEST, ListedOffset, ListOffsets

VERSION: Final = 4
LIMIT_VERSION: Final = 0
# Kafka's own defaults where the local clusters save time or memory; deleted data goes at once, disks are small.
BROKER: Final = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.ms": "-1",
}


class Rig:
    """A source and a target cluster, with the JVM options of Kafka's own scripts. `brokers`: of each.

    `properties`: of both brokers, beside `BROKER`; `target_properties`: of the target's. `directory`: for their files, if
    not the usual place. `encrypted`: both sides' clients use TLS and log in; what fills topics and looks at them does not.
    """

    def __init__(
        self,
        properties: Mapping[str, str] = MappingProxyType({}),
        directory: Path | None = None,
        *,
        target_properties: Mapping[str, str] = MappingProxyType({}),
        encrypted: bool = False,
        brokers: int = 1,
    ) -> None:
        listeners = (Listener.SASL_SSL, Listener.PLAINTEXT) if encrypted else (Listener.PLAINTEXT,)
        self.source, self.target = (
            LocalCluster(
                name,
                brokers,
                listeners=listeners,
                users={"bench": secrets.token_urlsafe(16)} if encrypted else {},
                mechanisms=SCRAM[1:],
                heap="1g" if brokers == 1 else "512m",
                jvm_options=KAFKA_JVM,
                properties={**BROKER, **properties, **own},
                directory=directory / name if directory else None,
            )
            for name, own in (("source", {}), ("target", target_properties))
        )

    def __enter__(self) -> Self:
        try:
            start_all(self.source, self.target)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends both brokers."""
        self.source.close()
        self.target.close()

    @property
    def source_addresses(self) -> str:
        """`host:port,…` of the source's brokers, without encryption."""
        return self.source.bootstrap(Listener.PLAINTEXT)

    def create_source_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Returns when its leaders take records: each names itself the leader a moment before it is."""
        self.source.create_topic(name, partitions, configs)
        until = time.monotonic() + 20
        with Ends(self.source, name, partitions) as ends:
            while not ends.answered() and time.monotonic() < until:
                time.sleep(0.1)

    def wait_for_first_record(self, remote_topic: str, partitions: int, seconds: float) -> None:
        """RuntimeError if none is in the target's topic by then."""
        with Ends(self.target, remote_topic, partitions) as ends:
            if not ends.wait_for(1, seconds):
                raise RuntimeError(f"no record is in {remote_topic} after {seconds:g} s")

    def throttle_producers(self, bytes_per_second: int) -> None:
        """The target's broker takes no more than that of any client id."""
        arguments = f"--alter --add-config producer_byte_rate={bytes_per_second} --entity-type clients --entity-default"
        login = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
        self.target.run_tool("kafka.admin.ConfigCommand", [*login, *arguments.split()])

    def limit_consumers(self, bytes_per_second: float | None) -> None:
        """The source's broker gives no more than that to any client id; None: as much as it can."""
        broker = BrokerSocket(self.source_addresses.split(",")[0])
        try:
            (altered,) = broker.call(LimitConsumers(bytes_per_second), LIMIT_VERSION)
        finally:
            broker.close()
        if altered.error:
            raise RuntimeError(f"the source took no quota: {error_name(altered.error)} {altered.message}")

    def broker_cpu(self) -> tuple[float, float]:
        """CPU seconds so far of the source's and of the target's brokers."""
        source, target = (
            sum(broker.cpu_seconds() for broker in cluster.brokers) for cluster in (self.source, self.target)
        )
        return source, target


class Ends:
    """How many records a topic holds, asked of the brokers themselves: librdkafka remembers too long that there is no topic.

    Of the brokers that run now; each tells of the partitions that it leads.
    """

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int) -> None:
        addresses = cluster.bootstrap(Listener.PLAINTEXT).split(",")
        running = zip(addresses, cluster.brokers, strict=True)
        self._brokers = [BrokerSocket(address) for address, broker in running if broker.alive]
        self._partitions = partitions
        self._request = ListOffsets({TopicPartition(topic, number): (LATEST, -1) for number in range(partitions)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self._brokers:
            broker.close()

    def records(self) -> int:
        """Sum of the end offsets; what does not exist counts as empty."""
        return sum(each.offset for each in self._led())

    def begun(self) -> int:
        """How many partitions hold a record."""
        return sum(each.offset > 0 for each in self._led())

    def answered(self) -> bool:
        """Whether every partition has a leader that answers."""
        return len(self._led()) == self._partitions

    def _led(self) -> list[ListedOffset]:
        return [each for broker in self._brokers for each in broker.call(self._request, VERSION) if not each.error]

    def wait_for(self, records: int, seconds: float, *, every: float = 0.1) -> int:
        """Returns once there are so many, or at the end of the patience, with how many there are."""
        until = time.monotonic() + seconds
        while (found := self.records()) < records and time.monotonic() < until:
            time.sleep(every)
        return found
