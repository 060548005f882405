"""Apache's MirrorMaker 2 and this product take turns at one link: the rig, and what is looked at meanwhile.

Every record lies at the same offset on both sides, so that what is translated can be judged at a glance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker, DedicatedMirrorMaker
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from tests.brokers import commit, committed, messages
from tests.e2e.dedicated import Dedicated
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for

PARTITIONS: Final = 3
RECORDS: Final = 600
EACH: Final = RECORDS // PARTITIONS
# Where READER stands among the records of a turn: no sync of Java's is for it.
MIDDLE: Final = 70
# Java's clients and Spark start in it, on a machine that may be busy.
PATIENCE_S: Final = 360.0
# Java's tasks get a few seconds to end, and on a busy machine give up before their last commit: it commits while it runs.
OFTEN: Final = {"offset.flush.interval.ms": "1000"}
KINDS: Final = ("Source", "Checkpoint", "Heartbeat")
SETTINGS: Final = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    # Others' heartbeats on the shared source are no topic of this link.
    "heartbeats.replication.enabled": "false",
}


class Program(Protocol):
    """What the two ways of starting MirrorMaker 2 have in common."""

    def start(self) -> object:
        """Starts it with its properties."""

    def stop(self) -> int:
        """Ends it as an operator does."""

    def close(self) -> None:
        """Ends it anyhow."""


@dataclass
class Turns:
    """One link, its names, and what was seen after each turn; `names`: kind of connector → its name."""

    source: LocalCluster
    target: LocalCluster
    topic: str
    aliases: tuple[str, str]
    names: dict[str, str]
    group_id: str
    offsets_topic: str
    configs_topic: str
    produced: list[list[bytes | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    # After each turn: key → (partition of connect-offsets, last value).
    positions: list[dict[bytes, tuple[int, bytes]]] = field(default_factory=list)
    # After each turn: how many syncs, checkpoints and heartbeats there are, and where the groups stand on the target.
    counts: list[tuple[int, int, int]] = field(default_factory=list)
    moved: list[dict[str, dict[int, int]]] = field(default_factory=list)
    refusal_code: int = 0
    refusal: str = ""
    # Kind of connector → its config while ours runs.
    adopted: dict[str, dict[str, str]] = field(default_factory=dict)
    # After each turn: how often configs of connectors were written so far.
    config_writes: list[int] = field(default_factory=list)

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.aliases[0]}.{self.topic}"

    @property
    def late(self) -> str:
        """The group that commits between two turns, at the end: only what the one before left can tell where that is."""
        return f"late-{self.topic}"

    @property
    def reader(self) -> str:
        """The group that commits in each turn, MIDDLE records behind its beginning."""
        return f"reader-{self.topic}"

    @property
    def end(self) -> int:
        """The end of each partition."""
        return len(self.produced[0])

    # What lies in the topics.

    def syncs(self) -> list[OffsetSync]:
        """All offset syncs of the link, oldest first."""
        name = f"mm2-offset-syncs.{self.aliases[1]}.internal"
        return [OffsetSync.decode(m.key(), m.value()) for m in messages(self.source, name, 0)]

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints of the link, oldest first."""
        name = f"{self.aliases[0]}.checkpoints.internal"
        if not end_offsets(self.target, name):
            return []
        return [Checkpoint.decode(m.key(), m.value()) for m in messages(self.target, name, 0)]

    def heartbeats(self) -> list[Heartbeat]:
        """All heartbeats of the link, oldest first."""
        if not end_offsets(self.target, "heartbeats"):
            return []
        found = [Heartbeat.decode(m.key(), m.value()) for m in messages(self.target, "heartbeats", 0)]
        return [each for each in found if (each.source_alias, each.target_alias) == self.aliases]

    def stored(self) -> dict[bytes, tuple[int, bytes]]:
        """What the topic of source offsets says now."""
        found: dict[bytes, tuple[int, bytes]] = {}
        for partition in end_offsets(self.target, self.offsets_topic):
            for message in messages(self.target, self.offsets_topic, partition, isolation="read_committed"):
                found[message.key()] = (partition, message.value())
        return found

    def source_positions(self, stored: Mapping[bytes, tuple[int, bytes]]) -> dict[bytes, tuple[int, bytes]]:
        """Those of the source connector among them."""
        start = f'["{self.names["Source"]}"'.encode()
        return {key: value for key, value in stored.items() if key.startswith(start)}

    def stored_configs(self) -> list[tuple[str, dict[str, str]]]:
        """Connector and config of each record that configures one, oldest first."""
        found = [(message.key(), message.value()) for message in messages(self.target, self.configs_topic, 0)]
        start = b"connector-"
        return [
            (key.decode().removeprefix("connector-"), json.loads(value)["properties"])
            for key, value in found
            if key and value and key.startswith(start)
        ]

    # A turn.

    def produce(self) -> None:
        """More records, as the next ones of each partition; none is like another."""
        first = sum(map(len, self.produced))
        rows = [(b"%d" % number, number % PARTITIONS) for number in range(first, first + RECORDS)]
        fields = ({"value": value, "partition": partition} for value, partition in rows)
        produce(self.source, self.topic, fields, **{"compression.type": "lz4"})
        for value, partition in rows:
            self.produced[partition].append(value)

    def turn(self, *, exact: bool) -> None:
        """What happens while one of the two runs; `exact`: a position between two syncs is translated to the very record."""
        begin = self.end
        if begin:
            # Before it has copied anything: told by the syncs of the other one.
            self.wait(lambda: self.newest(self.late) == {(begin, begin)}, f"{self.late} is told to go on at {begin}")
            there = dict.fromkeys(range(PARTITIONS), begin)
            self.wait(lambda: self.on_target(self.late) == there, f"{self.late} is moved to {begin}")
        self.produce()
        wait_ends(self.target, self.remote, dict.fromkeys(range(PARTITIONS), self.end), PATIENCE_S)
        self.commit(self.reader, begin + MIDDLE)

        def told() -> bool:
            newest = self.newest(self.reader)
            if exact:
                return newest == {(begin + MIDDLE, begin + MIDDLE)}
            return {upstream for upstream, _ in newest} == {begin + MIDDLE}

        self.wait(told, f"{self.reader} at {begin + MIDDLE} is translated")
        self.wait(lambda: bool(self.on_target(self.reader)), f"{self.reader} is on the target")
        beats = self.counts[-1][2] if self.counts else 0
        self.wait(lambda: len(self.heartbeats()) > beats, "a heartbeat is written")
        last = {(partition, self.end - 1, self.end - 1) for partition in range(PARTITIONS)}
        self.wait(
            lambda: last <= {(s.partition, s.upstream, s.downstream) for s in self.syncs()}, "the last record is synced"
        )

    def wait_committed(self) -> None:
        """Until the source offsets say of each partition the last record that was produced."""
        last = b'{"offset":%d}' % (self.end - 1)
        self.wait(
            lambda: [value for _, value in self.source_positions(self.stored()).values()] == [last] * PARTITIONS,
            f"positions are {last!r}",
        )

    def note(self) -> None:
        """Keeps what is seen after a turn, and lets LATE commit."""
        self.positions.append(self.stored())
        self.counts.append((len(self.syncs()), len(self.checkpoints()), len(self.heartbeats())))
        self.config_writes.append(len(self.stored_configs()))
        self.moved.append({group: self.on_target(group) for group in (self.late, self.reader)})
        self.commit(self.late, self.end)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """With the same patience for everything."""
        wait_for(condition, what, PATIENCE_S, 0.3)

    # Groups.

    def newest(self, group: str) -> set[tuple[int, int]]:
        """Upstream and downstream of the group's newest checkpoints; empty while partitions are missing."""
        found = {each.partition: (each.upstream, each.downstream) for each in self.checkpoints() if each.group == group}
        return set(found.values()) if len(found) == PARTITIONS else set()

    def commit(self, group: str, offset: int) -> None:
        """The group, which has no members, stands at `offset` of every partition of the source."""
        commit(self.source, group, self.topic, offset, partitions=range(PARTITIONS))

    def on_target(self, group: str) -> dict[int, int]:
        """Partition → where the group goes on at the target."""
        return committed(self.target, group, self.remote, range(PARTITIONS))


def take_turns(turns: Turns, java: Program, ours: Product, started: Callable[[], None]) -> None:
    """Java copies a part and stops; this product goes on and stops; Java goes on, and meanwhile this product is refused.

    `started`: what is done once Java runs for the first time.
    """
    try:
        java.start()
        started()
        turns.turn(exact=False)
        turns.wait_committed()
        java.stop()
        turns.note()

        ours.start()
        turns.turn(exact=True)
        stored = dict(turns.stored_configs())
        turns.adopted = {kind: stored[name] for kind, name in turns.names.items()}
        # No waiting for positions here: that its end commits is a promise.
        assert ours.stop() == 0
        turns.note()

        java.start()
        # The dedicated program joins its group a moment after it has started. Who writes heartbeats is in it.
        beats = len(turns.heartbeats())
        turns.wait(lambda: len(turns.heartbeats()) > beats, "Java is at work")
        said = len(ours.log_text())
        # It asks for some time until it believes the refusal: Java copies meanwhile.
        ours.launch()
        turns.turn(exact=False)
        turns.refusal_code = ours.wait_ended()
        turns.refusal = ours.log_text()[said:]
        turns.wait_committed()
        java.stop()
        turns.note()
    finally:
        ours.close()
        java.close()


def with_connect(source: LocalCluster, target: LocalCluster) -> Turns:
    """MirrorMaker 2 as three connectors of a Connect worker, made by REST."""
    names = {kind: f"turns-{kind.lower()}" for kind in KINDS}
    turns = Turns(source, target, "turns", ("S", "T"), names, "turns", "turns-offsets", "turns-configs")
    source.create_topic(turns.topic, PARTITIONS)
    java = ConnectWorker(target, OFTEN, group=turns.group_id, heap="512m")

    def make_connectors() -> None:
        for kind, name in names.items():
            config = {
                **mirror_config(source, target, turns.topic),
                **SETTINGS,
                "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
                "source.cluster.alias": turns.aliases[0],
                "target.cluster.alias": turns.aliases[1],
                "groups": f"{turns.late},{turns.reader}",
                "checkpoints.topic.replication.factor": "1",
                "heartbeats.topic.replication.factor": "1",
            }
            # Refused with 409 while the worker deals out the tasks of the one before.
            put = partial(java.request, "PUT", f"/connectors/{name}/config", config)
            turns.wait(lambda put=put: put()[0] in (200, 201), f"{name} is created")

    take_turns(turns, java, Product(target, group=turns.group_id), make_connectors)
    return turns


def with_dedicated(source: LocalCluster, target: LocalCluster) -> Turns:
    """MirrorMaker 2 as its own program, and this product's with the same file."""
    turns, java = _dedicated(source, target, ("FS", "FT"))
    ours = Dedicated(target, java.properties, internal_rest=False)
    take_turns(turns, java, ours, lambda: None)
    return turns


def with_dedicated_and_worker(source: LocalCluster, target: LocalCluster) -> Turns:
    """MirrorMaker 2 as its own program, and a worker of this product that is given its topics."""
    turns, java = _dedicated(source, target, ("DS", "DT"))
    topics = {
        "config.storage.topic": turns.configs_topic,
        "offset.storage.topic": turns.offsets_topic,
        "status.storage.topic": f"mm2-status.{turns.aliases[0]}.internal",
    }
    take_turns(turns, java, Product(target, group=turns.group_id, properties=topics), lambda: None)
    return turns


def _dedicated(
    source: LocalCluster, target: LocalCluster, aliases: tuple[str, str]
) -> tuple[Turns, DedicatedMirrorMaker]:
    """A link with one file: the worker's topics have names of their own, and there is no REST."""
    names = {kind: f"Mirror{kind}Connector" for kind in KINDS}
    internal = {what: f"mm2-{what}.{aliases[0]}.internal" for what in ("configs", "offsets")}
    topic = f"dedicated-turns-{aliases[0]}"
    turns = Turns(source, target, topic, aliases, names, f"{aliases[0]}-mm2", internal["offsets"], internal["configs"])
    source.create_topic(turns.topic, PARTITIONS)
    properties = {
        **SETTINGS,
        "topics": turns.topic,
        "groups": f"{turns.late},{turns.reader}",
        # Or there would be a second worker, on the source, for the heartbeats of the way back.
        f"{aliases[1]}->{aliases[0]}.emit.heartbeats.enabled": "false",
        **{f"{aliases[1]}.{name}": value for name, value in OFTEN.items()},
    }
    return turns, DedicatedMirrorMaker(source, target, properties, aliases=aliases, heap="512m")
