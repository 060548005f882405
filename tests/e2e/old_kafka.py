"""A link between two releases of Kafka, set up once: every kind of topic, a group, and the three connectors over them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local import LocalCluster
from tests.brokers import commit
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import TEXT, produce, produce_transactions
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for

MIRROR: Final = "org.apache.kafka.connect.mirror.Mirror"
KINDS: Final = ("Source", "Checkpoint", "Heartbeat")
RECORDS, READ, LATER = 300, 123, 20
# Source and target → a config, with a value, that only the source knows.
UNKNOWN: Final = {
    ("2.8.2", "4.3.1"): {"message.format.version": "2.7"},
    ("4.3.1", "2.8.2"): {"message.timestamp.after.max.ms": "3600000000"},
}
MAGICS: Final = {0: "0.9.0", 1: "0.10.2"}
RETENTION: Final = "987654321"


@dataclass
class OldLink:
    """One direction: what is called what, and whom to ask."""

    product: Product
    source: LocalCluster
    target: LocalCluster
    alias: str
    committed: int = 0

    def topic(self, kind: str) -> str:
        """A topic of the source."""
        return f"old-{self.alias}-{kind}"

    def remote(self, kind: str) -> str:
        """Its copy."""
        return f"{self.alias}.{self.topic(kind)}"

    @property
    def remade(self) -> str:
        """A topic of the source to delete and make again."""
        return f"remade-{self.alias}-0"

    @property
    def group(self) -> str:
        """A group that has read a part of the topic `group`."""
        return f"old-{self.alias}-reader"

    def name(self, kind: str) -> str:
        """A connector."""
        return f"old-{self.alias}-{kind.lower()}"

    @property
    def unknown(self) -> Mapping[str, str]:
        """A config of the source's release that the target's doesn't know."""
        return UNKNOWN.get((self.source.version, self.target.version), {})

    @property
    def formats(self) -> dict[int, str]:
        """Kinds of topics by the format of their messages: before 3.0 a topic could keep an older one."""
        old = {magic: f"magic{magic}" for magic in MAGICS} if self.source.version.startswith("2.") else {}
        return {**old, 2: "none"}

    def write(self) -> None:
        """Fills the source before anybody copies."""
        for codec in TEXT:
            self.source.create_topic(self.topic(codec))
            # Batches of more than 16 KiB: smaller ones without compression may be merged.
            rows = [_row(number, f"{codec} ", 30) for number in range(RECORDS)]
            produce(self.source, self.topic(codec), rows, **{"compression.type": codec, "batch.num.messages": 100})
        self.source.create_topic(self.remade)
        produce(self.source, self.remade, [_row(number) for number in range(RECORDS)])
        self.source.create_topic(self.topic("tx"), 2)
        _, self.committed = produce_transactions(self.source, self.topic("tx"))
        self.source.create_topic(self.topic("configured"), 1, {"retention.ms": "123456789", **self.unknown})
        self.source.create_topic(self.topic("growing"))
        self.source.create_topic(self.topic("group"))
        for kind in ("growing", "configured", "group"):
            produce(self.source, self.topic(kind), [_row(number) for number in range(RECORDS)])
        commit(self.source, self.group, self.topic("group"), READ)
        for magic in self.formats.keys() & MAGICS.keys():
            self._write_old_format(self.topic(self.formats[magic]), MAGICS[magic])

    def connect(self) -> None:
        """Creates the connectors and waits until they run."""
        for kind in KINDS:
            self.product.put(self.name(kind), self.config(kind))
        for kind in KINDS:
            self.product.wait_running(self.name(kind))

    def config(self, kind: str) -> dict[str, str]:
        """As for Kafka's own connector of that kind."""
        given = mirror_config(
            self.source,
            self.target,
            f"(old|remade)-{self.alias}-.*",
            source_cluster_alias=self.alias,
            target_cluster_alias=f"of-{self.alias}",
            groups=self.group,
            consumer_isolation_level="read_committed",
            sync_topic_configs_enabled="true",
            sync_topic_configs_interval_seconds="1",
            emit_checkpoints_interval_seconds="1",
            sync_group_offsets_enabled="true",
            sync_group_offsets_interval_seconds="1",
            refresh_groups_interval_seconds="1",
        )
        return {**given, "connector.class": f"{MIRROR}{kind}Connector"}

    def change(self) -> None:
        """What happens to topics while they are copied."""
        self.source.grow_topic(self.topic("growing"), 3)
        produce(self.source, self.topic("growing"), [{**_row(number), "partition": 2} for number in range(LATER)])
        configured = ConfigResource(ConfigResource.Type.TOPIC, self.topic("configured"))
        configured.add_incremental_config(
            ConfigEntry("retention.ms", RETENTION, incremental_operation=AlterConfigOpType.SET)
        )
        self.source.admin().incremental_alter_configs([configured])[configured].result(180)

    def wait_copied(self) -> None:
        """Waits until everything written so far is on the target."""
        expected: dict[str, Mapping[int, int]] = {codec: {0: RECORDS} for codec in TEXT}
        expected |= {kind: {0: RECORDS} for kind in ("configured", "group")}
        remade = f"{self.alias}.{self.remade}"
        expected["growing"] = {0: RECORDS, 1: 0, 2: LATER}
        expected |= {self.formats[magic]: {0: 4 * LATER} for magic in self.formats.keys() & MAGICS.keys()}

        def there() -> bool:
            self.product.check_alive()
            return all(_reached(end_offsets(self.target, self.remote(kind)), ends) for kind, ends in expected.items())

        def come() -> list[dict[int, int]]:
            return [end_offsets(self.target, self.remote(kind)) for kind in expected]

        try:
            wait_for(there, f"everything of {self.alias} is copied", pause=0.3, arrived=come)
        except AssertionError as error:
            ends = {kind: end_offsets(self.target, self.remote(kind)) for kind in expected}
            raise AssertionError(f"{error}; there is {ends}; {self.product.status(self.name('Source'))}") from None
        wait_for(
            lambda: sum(end_offsets(self.target, self.remote("tx")).values()) >= self.committed,
            "transactions are there",
        )
        wait_ends(self.target, remade, {0: RECORDS})

    def verify(self) -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of `mirror-connect verify` over all topics."""
        source = self.source.write_client_properties()
        source.write_text(f"{source.read_text('utf-8')}isolation.level=read_committed\n", "utf-8")
        files = ["--source", str(source), "--target", str(self.target.write_client_properties())]
        topics = ["--topics", f"old-{self.alias}-.*", "--source-alias", self.alias]
        done = subprocess.run(
            [sys.executable, "-m", "mirror_connect.cli", "verify", *files, *topics, "--json"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def _write_old_format(self, topic: str, version: str) -> None:
        self.source.create_topic(topic, 1, {"message.format.version": version})
        for codec in TEXT.keys() - {"zstd"}:  # which those formats didn't have
            produce(self.source, topic, [_row(n, f"{codec} ") for n in range(LATER)], **{"compression.type": codec})


def _row(number: int, text: str = "", times: int = 9) -> dict[str, Any]:
    return {"key": b"%d" % (number % 7), "value": f"{text}{number} ".encode() * times, "partition": 0}


def _reached(ends: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    return all(ends.get(partition, -1) >= end for partition, end in wanted.items())
