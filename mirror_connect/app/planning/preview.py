"""A preview of a source connector: the source's last records as they would be copied. Nothing is written anywhere.

What its transformations do to a record is decided by the code that copies. Spark's driver applies a statement behind them.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from mirror_connect.app.planning.last_records import SourceRecord, last_records
from mirror_connect.connectors import MirrorSource, connector_definition
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.mirror.dead_letters import dead_letter_topic
from mirror_connect.connectors.mirror.mirror_source import topic_selection
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform, transform_of
from mirror_connect.connectors.mirror.settings import (
    admin_timeout_s,
    client_id,
    required_source_admin,
    source_consumer,
)
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.connectors.secrets import HIDDEN, redact, resolved_secrets
from mirror_connect.connectors.user_code.user_class import is_user_class
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.kafka_io.records.record_rewrite import after_steps

MOST_RECORDS: Final = 200
# Of a key, a value or a header that is shown.
SHOWN_BYTES: Final = 16 << 10
# Of records that go through Spark for one preview: the worker writes them on its loop.
STATEMENT_BYTES: Final = 1 << 20
# A shorter secret is in other bytes by accident.
_TELLING: Final = 6
# For each part of it: topics, offsets, records.
CALL_S: Final = 15.0
_SHOWN_NAMES: Final = 5
PREVIEW_S: Final = 45.0


@dataclass(frozen=True, slots=True)
class Content:
    """A key, a value, or a header's value. `data` is the text if it is UTF-8, else base64; its first bytes if it is long.

    `size`: all of its bytes.
    """

    encoding: str
    data: str
    size: int

    @classmethod
    def of(cls, content: bytes | None, secrets: Collection[str] = ()) -> Content | None:
        """None for a null. `secrets`: of the config, which a transformation may have put into a record."""
        if content is None:
            return None
        try:
            text = redact(content.decode(), secrets)
        except UnicodeDecodeError:
            for secret in secrets:
                if len(secret) >= _TELLING:
                    content = content.replace(secret.encode(), HIDDEN.encode())
            return cls("base64", base64.b64encode(content[:SHOWN_BYTES]).decode(), len(content))
        # A character may be cut in two.
        return cls("text", text.encode()[:SHOWN_BYTES].decode(errors="ignore"), len(content))


@dataclass(frozen=True, slots=True)
class Header:
    """A header."""

    key: str
    value: Content | None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a record holds. `timestamp`: ms; -1 if it has none."""

    timestamp: int
    key: Content | None
    value: Content | None
    headers: Sequence[Header]

    @classmethod
    def of(cls, timestamp: int, parts: RecordParts, secrets: Collection[str] = ()) -> Contents:
        """For people."""
        headers = [
            Header(redact(name.decode(errors="replace"), secrets), Content.of(content, secrets))
            for name, content in parts.headers
        ]
        return cls(timestamp, Content.of(parts.key, secrets), Content.of(parts.value, secrets), headers)


@dataclass(frozen=True, slots=True)
class PreviewedRecord:
    """A record of the source. `before`: None unless it was asked for. `after`: None if it is dropped or in error.

    `error`: why a transformation can't take it, or why `after` of a kept one is not shown. Nothing of the record is in it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    remote_topic: str
    kept: bool
    error: str | None
    before: Contents | None
    after: Contents | None


@dataclass(frozen=True, slots=True)
class Preview:
    """Records, the oldest first. `line`: why there may be fewer than there could be."""

    records: Sequence[PreviewedRecord]
    line: str | None

    def as_json(self) -> dict[str, Any]:
        """For REST."""
        return {"records": [asdict(record) for record in self.records], "line": self.line}


def source_topics(settings: Settings, timeout: float) -> Mapping[str, int]:
    """Every topic of the source, with its number of partitions. AdminError, ClusterUnreachable, NotAuthorized."""
    name = f"source cluster {settings.text('source.cluster.alias')}"
    return ClusterAdmin(required_source_admin(settings.originals), name, timeout, user=SOURCE_USER).topics()


@dataclass(frozen=True, slots=True)
class _Stepped:
    """A record behind the transformations. `rest`: its bytes, if it is kept. `computed`: a statement or function gets it."""

    found: SourceRecord
    remote_topic: str
    kept: bool
    timestamp: int
    rest: bytes | None
    error: str | None
    computed: bool


# The transformation, the records behind `transforms`, and the resolved config.
Transformed = Callable[[RecordTransform, Sequence[AskedRecord], Mapping[str, str]], Awaitable[list[TransformedRecord]]]


async def _without_spark(*_: object) -> list[TransformedRecord]:
    raise NotImplementedError


class Previewer:
    """See the module. `transformed`: asks Spark. `topics`, `reads`: of the source."""

    def __init__(
        self,
        transformed: Transformed = _without_spark,
        topics: Callable[[Settings, float], Mapping[str, int]] = source_topics,
        reads: Callable[..., tuple[list[SourceRecord], str]] = last_records,
    ) -> None:
        self._transformed = transformed
        self._topics = topics
        self._reads = reads
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="previews")

    async def preview(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], count: int, *, before: bool, topic: str | None
    ) -> Preview:
        """Of a valid config. `topic`: of the source, of which alone.

        ClusterUnreachable, NotAuthorized, AdminError, ConfigError, SparkAway, LookupRefused.
        """
        definition = connector_definition(resolved["connector.class"])
        if not isinstance(definition, MirrorSource):
            raise ConfigError("connector.class", definition.simple_name, "only a MirrorSourceConnector copies records")
        settings, transform = definition.settings(resolved, raw), transform_of(resolved)
        loop = asyncio.get_running_loop()
        read = loop.run_in_executor(self._threads, self._read, settings, count, topic)
        try:
            async with asyncio.timeout(PREVIEW_S):
                records, line = await read
        except TimeoutError:
            raise ClusterUnreachable(
                f"The preview was not ready within {PREVIEW_S:g} s: the source is slow, or other previews are under way"
            ) from None
        if transform is not None:
            records, line = await self._by_spark(transform, records, line, resolved)
        letters = dead_letter_topic(settings)
        if letters is not None:
            goes = f". It would go to topic {letters.name}"
            records = [each if each.error is None else replace(each, error=each.error + goes) for each in records]
        secrets = resolved_secrets(raw, resolved)
        shown = await asyncio.to_thread(lambda: [_shown(each, secrets, before=before) for each in records])
        return Preview(shown, redact(line, secrets) or None)

    def _read(self, settings: Settings, count: int, topic: str | None) -> tuple[list[_Stepped], str]:
        """Records behind `transforms`, and why there may be fewer."""
        timeout = min(admin_timeout_s(settings), CALL_S)
        there = self._topics(settings, timeout)
        remote = remote_topics(settings, there)
        if topic is not None and topic not in remote:
            return [], f"the connector would not copy {topic}, or there is no such topic"
        partitions = [
            TopicPartition(each, partition)
            for each, (_, number) in sorted(remote.items())
            if topic in (None, each)
            for partition in range(number)
        ]
        properties = source_consumer(settings.originals)
        identity = client_id(settings.originals, "preview", configured=properties.get("client.id"))
        found, line = self._reads(properties, identity, partitions, count, timeout)
        chain, policy = chain_of(settings.originals), topic_selection(settings).policy
        if all(map(policy.is_heartbeats, remote)) and not is_user_class(settings.originals.get("topic.filter.class")):
            line = "; ".join(filter(None, (_nothing_matches(settings, there), line)))
        records = []
        for record in found:
            copied_to = remote[record.topic][0]
            # As app/worker_connectors/task_specs.py tells it to a task.
            named = policy.named_topic(settings.text("source.cluster.alias"), record.topic)
            heartbeats = policy.is_heartbeats(record.topic)
            steps = chain.steps(named, routed=named != copied_to, heartbeats=heartbeats)
            records.append(_stepped(record, copied_to, steps, computed=not heartbeats))
        return records, line

    async def _by_spark(
        self, transform: RecordTransform, records: Sequence[_Stepped], line: str, resolved: Mapping[str, str]
    ) -> tuple[list[_Stepped], str]:
        """The records behind the statement or function, too. Of many bytes, the newest ones."""
        fitting, size = len(records), 0
        while fitting and (size := size + len(records[fitting - 1].rest or b"")) <= STATEMENT_BYTES:
            fitting -= 1
        if fitting:
            setting, room = setting_of_transform(transform), STATEMENT_BYTES >> 20
            few = f"a preview of {setting} takes {room} MiB of records, and leaves out the {fitting} oldest"
            line = "; ".join(filter(None, (line, few)))
        taken = list(records[fitting:])
        places = [place for place, each in enumerate(taken) if each.rest is not None and each.computed]
        if places:
            made = await self._transformed(transform, [_asked(taken[place]) for place in places], resolved)
            for place, became in zip(places, made, strict=True):
                error = (
                    None
                    if became.error is None
                    else f"transformation {setting_of_transform(transform)}: {became.error}"
                )
                taken[place] = replace(
                    taken[place], kept=became.kept, timestamp=became.timestamp, rest=became.rest, error=error
                )
        return taken, line


def _nothing_matches(settings: Settings, there: Iterable[str]) -> str:
    """Of a config by which no topic is copied, but for heartbeats. `there`: the source's topics."""
    named = settings.texts("topics")
    near = [close[0] for each in named if (close := get_close_matches(each, list(there), 1))]
    hint = f" (did you mean {', '.join(near[:_SHOWN_NAMES])}?)" if near else ""
    more = " …" if len(named) > _SHOWN_NAMES else ""
    return f"no topic of the source is copied by topics={','.join(named[:_SHOWN_NAMES])}{more}{hint}"


def remote_topics(settings: Settings, found: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """The topics that would be copied: the name on the target, and the number of partitions. ConfigError."""
    selection = topic_selection(settings)
    selection.judge(found)
    alias = settings.text("source.cluster.alias")
    return {
        topic: (selection.policy.remote_topic(alias, topic), partitions)
        for topic, partitions in found.items()
        if selection.should_replicate(topic)
    }


def _stepped(record: SourceRecord, remote_topic: str, steps: Steps, *, computed: bool) -> _Stepped:
    rest, error = None, None
    try:
        rest = after_steps((record.offset, record.timestamp, rest_of(record.parts)), steps)
    except RecordError as failed:
        error = f"transformation {failed.transformation}: {failed.reason}"
    return _Stepped(record, remote_topic, rest is not None, record.timestamp, rest, error, computed)


def _asked(record: _Stepped) -> AskedRecord:
    found = record.found
    assert record.rest is not None
    return AskedRecord(TopicPartition(found.topic, found.partition), found.offset, found.timestamp, record.rest)


def _shown(record: _Stepped, secrets: Collection[str], *, before: bool) -> PreviewedRecord:
    found = record.found
    return PreviewedRecord(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp,
        record.remote_topic,
        record.kept,
        record.error,
        Contents.of(found.timestamp, found.parts, secrets) if before else None,
        None if record.rest is None else Contents.of(record.timestamp, parts_of(record.rest), secrets),
    )
