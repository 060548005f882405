"""The properties files of MirrorMaker 1: a consumer's for each source, a producer's for the target.

MirrorMaker's defaults are applied. Properties of clients before Kafka 0.9, and others without a meaning here, are left out
and named in one line for each file. What no Kafka client knows is named by the clients themselves.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mirror_connect.app.config.config_providers import Resolved, resolve_own
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.mirror_maker.assignors import SETTING as ASSIGNMENT
from mirror_connect.app.mirror_maker.assignors import configured_assignors
from mirror_connect.connectors.config.table import RefusedConfig, Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.secrets import resolved_secrets
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS
from mirror_connect.kafka_io.client.copier_settings import producer_settings
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings

BOOTSTRAP: Final = "bootstrap.servers"
GROUP: Final = "group.id"
RESET: Final = "auto.offset.reset"
# Values of the clients before Kafka 0.9.
OLD_RESETS: Final = {"smallest": "earliest", "largest": "latest"}
# Clients before Kafka 0.9 had these, or guides show them.
_OLD_CONSUMER: Final = frozenset(
    [
        "auto.commit.enable",
        "auto.commit.enabled",
        "autocommit.enable",
        "autocommit.interval.ms",
        "autooffset.reset",
        "backoff.increment.ms",
        "consumer.id",
        "consumer.timeout.ms",
        "dual.commit.enabled",
        "fetch.message.max.bytes",
        "fetch.size",
        "fetch.wait.max.ms",
        "groupid",
        "max.commit.retries",
        "mirror.consumer.numthreads",
        "mirror.topics.blacklist",
        "mirror.topics.whitelist",
        "num.consumer.fetchers",
        "offsets.channel.backoff.ms",
        "offsets.channel.socket.timeout.ms",
        "offsets.commit.max.retries",
        "offsets.storage",
        "queued.max.message.chunks",
        "queuedchunks.max",
        "rebalance.backoff.ms",
        "rebalance.max.retries",
        "rebalance.retries.max",
        "refresh.leader.backoff.ms",
        "shallowiterator.enable",
        "socket.buffersize",
        "socket.receive.buffer.bytes",
        "socket.timeout.ms",
        "zk.connect",
        "zk.connectiontimeout.ms",
        "zk.sessiontimeout.ms",
        "zk.synctime.ms",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
        "zookeeper.sync.time.ms",
    ]
)
_OLD_PRODUCER: Final = frozenset(
    [
        "async.batch.num",
        "block.on.buffer.full",
        "batch.num.messages",
        "broker.list",
        "compressed.topics",
        "compression.codec",
        "key.serializer.class",
        "message.send.max.retries",
        "metadata.broker.list",
        "metadata.fetch.timeout.ms",
        "partition.assignment",
        "producer.type",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queue.enqueue.timeout.ms",
        "queue.enqueuetimeout.ms",
        "queue.size",
        "queue.time",
        "reconnect.interval",
        "request.required.acks",
        "send.buffer",
        "serializer.class",
        "timeout.ms",
        "topic.metadata.refresh.interval.ms",
        "zk.connect",
        "zookeeper.connect",
    ]
)
# Of today's consumer: a member of the group has them, but not this one.
_IDLE: Final = frozenset({"group.instance.id", "group.protocol", "group.remote.assignor"})
_INTERNAL: Final = "exclude.internal.topics"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source: `consumer` are its properties with MirrorMaker's defaults. Times are in ms. `notices`: lines for the log.

    `secrets`: what no text may show.
    """

    name: str
    group_id: str
    consumer: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    assignors: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    metadata_max_age_ms: int
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetFile:
    """The target: `producer` are its properties. `notices`: lines for the log. `secrets`: what no text may show."""

    producer: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    notices: tuple[str, ...]


# Gets the secrets of a file before an error can show one.
Hide = Callable[[frozenset[str]], None]


def read_sources(paths: Collection[str], hide: Hide) -> list[SourceFile]:
    """The sources of these files; their names are unique. ConfigError."""
    sources: list[SourceFile] = []
    for path in paths:
        with _read(path, "consumer", hide) as (given, secrets):
            source = _source(path, given, secrets, {each.name for each in sources})
        for other in sources:
            same = (other.group_id, other.consumer[BOOTSTRAP]) == (source.group_id, source.consumer[BOOTSTRAP])
            if same:
                raise ConfigError(
                    GROUP, source.group_id, f"two --consumer.config files name it at {source.consumer[BOOTSTRAP]}"
                )
        sources.append(source)
    return sources


def read_target(path: str, hide: Hide) -> TargetFile:
    """The target of this file. ConfigError."""
    with _read(path, "producer", hide) as (given, secrets):
        _check_bootstrap(given, "target", "metadata.broker.list")
        kept, notices = _without(given, _OLD_PRODUCER, f"{path}: the target's producer")
        CLIENT_KEYS["producer"].parse_all(kept)
        producer_settings(kept)
        return TargetFile(kept, secrets, notices)


def _source(path: str, given: Mapping[str, str], secrets: frozenset[str], names: Collection[str]) -> SourceFile:
    _check_bootstrap(given, "source", "zookeeper.connect")
    if not given.get(GROUP):
        wrong = f" in the place of groupid={given['groupid']}" if "groupid" in given else ""
        raise ConfigError(GROUP, None, f"{path} has none, and positions are kept in it: set {GROUP}{wrong}")
    assignors, left_out = configured_assignors(given.get(ASSIGNMENT))
    kept, notices = _without(given, _OLD_CONSUMER | _IDLE, f"{path}: the source's consumer")
    more = []
    if left_out:
        more.append(f"{path}: these assignors are left out of {ASSIGNMENT}: {', '.join(left_out)}")
    if kept.get(_INTERNAL, "").strip().lower() == "false":
        more.append(f"{path}: {_INTERNAL}=false has no effect: brokers let nobody write to internal topics")
    if kept.get(RESET) in OLD_RESETS:
        kept[RESET] = OLD_RESETS[kept[RESET]]
    if RESET not in kept:
        kept[RESET] = "latest"
        more.append(
            f"{path}: {RESET} is not set, so a partition without a committed offset is copied from its end, as by "
            "MirrorMaker. Set earliest to copy all of it"
        )
    kept.pop(_INTERNAL, None)
    kept.pop(ASSIGNMENT, None)
    settings: Settings = CLIENT_KEYS["consumer"].parse_all(kept)
    FetchSettings.of(kept)
    return SourceFile(
        name=_name(path, names),
        group_id=given[GROUP],
        consumer=kept,
        secrets=secrets,
        assignors=tuple(assignors),
        session_timeout_ms=settings.integer("session.timeout.ms"),
        heartbeat_interval_ms=settings.integer("heartbeat.interval.ms"),
        rebalance_timeout_ms=settings.integer("max.poll.interval.ms"),
        metadata_max_age_ms=settings.integer("metadata.max.age.ms"),
        notices=(*notices, *more),
    )


@contextlib.contextmanager
def _read(path: str, kind: str, hide: Hide) -> Iterator[tuple[dict[str, str], frozenset[str]]]:
    """The properties with the values of their config providers, as Kafka's clients read them; and what is secret of them.

    A ConfigError within quotes a reference as it is written: it may name the wrong secret.
    """
    _, resolved = resolve_own(read_properties(path, what=f"the file of --{kind}.config"))
    given = {name: value for name, value in resolved.values.items() if name.partition(".providers")[0] != "config"}
    secrets = resolved_secrets(resolved.as_written, resolved.values)
    hide(secrets)
    try:
        yield given, secrets
    except ConfigError as error:
        if not resolved.referenced(error.name) or error.name not in given:
            raise
        raise RefusedConfig(error.name, _as_written(str(error), error.name, resolved)) from None


def _as_written(text: str, name: str, resolved: Resolved) -> str:
    for value in (resolved.values[name], resolved.values[name].strip()):
        text = text.replace(value, resolved.as_written[name]) if value else text
    return text


def _check_bootstrap(given: Mapping[str, str], side: str, former: str) -> None:
    if given.get(BOOTSTRAP):
        return
    instead = f" in the place of {former}" if former in given else ""
    raise ConfigError(BOOTSTRAP, None, f"the {side} is reached by its brokers: set {BOOTSTRAP}{instead}")


def _without(given: Mapping[str, str], idle: Collection[str], what: str) -> tuple[dict[str, str], tuple[str, ...]]:
    kept = {name: value for name, value in given.items() if name not in idle}
    names = sorted(given.keys() - kept.keys())
    return kept, (f"{what} has properties without an effect here: {', '.join(names)}",) if names else ()


def _name(path: str, names: Collection[str]) -> str:
    """A file's name, without its suffix, for the log; with a number if it is taken."""
    stem = Path(path).stem or "source"
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([stem], numbered) if name not in names)
