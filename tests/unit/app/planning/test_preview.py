"""What a preview shows of a source's records, by the transformations of a config."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.app.planning.last_records import SourceRecord
from mirror_connect.app.planning.preview import (
    SHOWN_BYTES,
    STATEMENT_BYTES,
    Content,
    Preview,
    PreviewedRecord,
    Previewer,
)
from mirror_connect.app.supervisor.spark_questions import SparkAway
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from tests.fakes.connect_worker import source_config

PACKAGE = "org.apache.kafka.connect.transforms."
TOPICS = {"orders": 2, "clicks": 1, "__consumer_offsets": 50, "mm2-offset-syncs.B.internal": 1, "heartbeats": 1}
FILTERED = {
    "transforms": "gone,mark,route",
    "transforms.gone.type": f"{PACKAGE}Filter",
    "transforms.gone.predicate": "tombstone",
    "predicates": "tombstone",
    "predicates.tombstone.type": f"{PACKAGE}predicates.RecordIsTombstone",
    "transforms.mark.type": f"{PACKAGE}InsertHeader",
    "transforms.mark.header": "from",
    "transforms.mark.value.literal": "eu",
    "transforms.route.type": f"{PACKAGE}RegexRouter",
    "transforms.route.regex": r"A\.(.*)",
    "transforms.route.replacement": "eu-$1",
}


class FakeSource:
    """Topics, and records of which the newest are read."""

    def __init__(self, *records: SourceRecord) -> None:
        self.records = records
        self.asked: list[TopicPartition] = []

    def topics(self, _settings: Settings, _timeout: float) -> Mapping[str, int]:
        return TOPICS

    def last(
        self, properties: Mapping[str, str], _id: str, partitions: Sequence[TopicPartition], count: int, _timeout: float
    ) -> tuple[list[SourceRecord], str]:
        assert properties["bootstrap.servers"]
        self.asked += partitions
        return [record for record in self.records if (record.topic, record.partition) in partitions][-count:], ""


class FakeSpark:
    """Copies a record with another key and time, drops it, or can't take it, by its value; and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AskedRecord] = []
        self.sql: TransformSql | None = None
        self.resolved: Mapping[str, str] = {}

    async def transformed(
        self, sql: TransformSql, records: Sequence[AskedRecord], resolved: Mapping[str, str]
    ) -> list[TransformedRecord]:
        self.sql, self.resolved = sql, resolved
        self.asked += records
        return [self._made(each.timestamp, parts_of(each.rest)) for each in records]

    def _made(self, timestamp: int, parts: RecordParts) -> TransformedRecord:
        if parts.value == b"US":
            return TransformedRecord(False, timestamp, None)
        if parts.value == b"bad":
            return TransformedRecord(False, timestamp, None, "WHERE raised an error")
        if parts.value == b"large":
            return TransformedRecord(True, timestamp, None, "it becomes 5 bytes, too many for a preview")
        return TransformedRecord(True, 5, rest_of(parts._replace(key=(sql_secret(self.sql) or "k2").encode())))


def sql_secret(sql: TransformSql | None) -> str | None:
    return None if sql is None else sql.secrets.get("pepper")


def record(topic: str, offset: int, value: bytes | None, *headers: tuple[bytes, bytes]) -> SourceRecord:
    return SourceRecord(topic, 0, offset, 1000 + offset, RecordParts(b"k", value, headers))


async def previewed(
    source: FakeSource,
    more: Mapping[str, str],
    *,
    before: bool = False,
    topic: str | None = None,
    resolved: Mapping[str, str] | None = None,
    spark: FakeSpark | None = None,
) -> Preview:
    raw = {"name": "link", **source_config(topics="orders,clicks"), **more}
    previewer = Previewer((spark or FakeSpark()).transformed, source.topics, source.last)
    return await previewer.preview(raw, {**raw, **(resolved or {})}, 20, before=before, topic=topic)


async def test_records_are_shown_as_they_would_be_copied() -> None:
    source = FakeSource(
        record("orders", 7, b"x", (b"h", b"v")), record("orders", 8, None), record("clicks", 1, b"\xff")
    )
    shown = await previewed(source, FILTERED)
    assert [(each.topic, each.offset, each.remote_topic, each.kept) for each in shown.records] == [
        ("orders", 7, "eu-orders", True),
        ("orders", 8, "eu-orders", False),
        ("clicks", 1, "eu-clicks", True),
    ]
    first, dropped, last = map(shown_of, shown.records)
    assert first == {"key": "k", "value": "x", "headers": {"h": "v", "from": "eu"}}
    assert dropped is None
    assert last == {"key": "k", "value": base64.b64encode(b"\xff").decode(), "headers": {"from": "eu"}}
    # Only what the connector would copy is read.
    assert source.asked == [
        TopicPartition("clicks", 0),
        TopicPartition("heartbeats", 0),
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]


async def test_topics_that_match_nothing_are_told_with_what_they_resemble() -> None:
    source = FakeSource(record("heartbeats", 1, b"beat"))
    shown = await previewed(source, {"topics": "ordres,nothing"})
    assert shown.line == "no topic of the source is copied by topics=ordres,nothing (did you mean orders?)"
    assert [each.topic for each in shown.records] == ["heartbeats"]
    assert (await previewed(source, {"topics": "orders"})).line is None
    given = await previewed(source, {"topics": "${file:/s:t}"}, resolved={"topics": "geheim"})
    assert given.line == "no topic of the source is copied by topics=[hidden]"


MASKED = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "mask",
    "transforms.mask.type": f"{PACKAGE}MaskField$Value",
    "transforms.mask.fields": "card",
}


async def test_a_record_that_a_transformation_cannot_take_is_in_error_and_shows_nothing() -> None:
    source = FakeSource(record("orders", 7, b'{"card": "4111", "id": 1}'), record("orders", 8, b"4111 is no JSON"))
    masked, broken = (await previewed(source, MASKED)).records
    assert masked.after is not None
    assert masked.after.value is not None
    assert (masked.kept, json.loads(masked.after.value.data)) == (True, {"card": "", "id": 1})
    assert (broken.kept, broken.after, broken.error is not None) == (False, None, True)
    assert "4111" not in str((masked, broken))


async def test_a_record_with_a_schema_is_shown_with_the_schema_that_its_copy_gets() -> None:
    fields = [{"type": "string", "field": "card"}, {"type": "int32", "optional": True, "field": "id"}]
    schema = {"type": "struct", "fields": fields, "optional": False}
    value = json.dumps({"schema": schema, "payload": {"card": "4111", "id": 1}}).encode()
    source = FakeSource(record("orders", 7, value), record("orders", 8, b'{"card": "4111"}'))
    config = {
        **MASKED,
        "value.converter.schemas.enable": "true",
        "transforms": "mask,drop",
        "transforms.drop.type": f"{PACKAGE}ReplaceField$Value",
        "transforms.drop.exclude": "id",
    }
    masked, plain = (await previewed(source, config)).records
    assert masked.after is not None
    assert masked.after.value is not None
    assert json.loads(masked.after.value.data) == {
        "schema": {**schema, "fields": [{**fields[0], "optional": False}]},
        "payload": {"card": ""},
    }
    assert plain.error is not None
    assert plain.error.endswith("If it is plain JSON, set schemas.enable=false")
    assert "4111" not in str((masked, plain))


async def test_a_record_in_error_is_told_to_go_to_the_dead_letter_topic() -> None:
    source = FakeSource(record("orders", 8, b"4111 is no JSON"))
    letters = {"errors.deadletterqueue.topic.name": "letters"}
    (tolerant,) = (await previewed(source, {**MASKED, **letters, "errors.tolerance": "all"})).records
    (not_tolerant,) = (await previewed(source, {**MASKED, **letters})).records
    assert tolerant.error is not None
    assert tolerant.error.endswith(". It would go to topic letters")
    assert not_tolerant.error is not None
    assert "letters" not in not_tolerant.error


async def test_what_the_source_has_is_shown_on_request_alone() -> None:
    source = FakeSource(record("orders", 7, b"x"))
    (without,) = (await previewed(source, FILTERED)).records
    (shown,) = (await previewed(source, FILTERED, before=True)).records
    assert without.before is None
    assert shown.before is not None
    assert (shown.before.value, shown.before.headers) == (Content("text", "x", 1), [])


async def test_records_of_one_topic_are_shown() -> None:
    source = FakeSource(record("orders", 7, b"x"), record("clicks", 7, b"x"))
    assert [each.topic for each in (await previewed(source, {}, topic="clicks")).records] == ["clicks"]
    for topic in ("__consumer_offsets", "bills"):
        none = await previewed(source, {}, topic=topic)
        assert (none.records, none.line is not None) == ([], True)


async def test_a_secret_that_a_transformation_writes_is_hidden() -> None:
    source = FakeSource(record("orders", 7, b"\xffhunter2-hunter2"))
    name = "transforms.mark.value.literal"
    shown = await previewed(source, {**FILTERED, name: "${file:/s:p}"}, resolved={name: "hunter2-hunter2"})
    assert "hunter2" not in str(shown)
    after = shown.records[0].after
    assert after is not None
    assert [header.value for header in after.headers] == [Content("text", "[hidden]", 15)]
    assert after.value == Content("base64", base64.b64encode(b"\xff[hidden]").decode(), 9)


STATEMENT = {
    "spark.transform.sql": "SELECT secrets.pepper AS key FROM records",
    "spark.transform.secret.pepper": "${file:/s:p}",
}
PEPPER = {"spark.transform.secret.pepper": "pepper-of-32-bytes"}


async def test_spark_gets_what_transforms_leave_and_says_what_it_becomes() -> None:
    source = FakeSource(
        record("orders", 1, None),
        *(record("orders", 2 + at, each) for at, each in enumerate((b"US", b"bad", b"large", b"EU"))),
    )
    spark = FakeSpark()
    found = await previewed(source, {**FILTERED, **STATEMENT}, resolved=PEPPER, spark=spark)
    # The tombstone never gets there, as in a task.
    assert [(each.partition, each.offset, each.timestamp) for each in spark.asked] == [
        (TopicPartition("orders", 0), offset, 1000 + offset) for offset in (2, 3, 4, 5)
    ]
    assert parts_of(spark.asked[0].rest).headers == ((b"from", b"eu"),)
    assert spark.sql is not None
    assert spark.sql.secrets == {"pepper": "pepper-of-32-bytes"}
    # For the logins of lookups.
    assert spark.resolved["spark.transform.secret.pepper"] == "pepper-of-32-bytes"
    assert [(each.offset, each.kept, each.error) for each in found.records] == [
        (1, False, None),
        (2, False, None),
        (3, False, "transformation spark.transform.sql: WHERE raised an error"),
        (4, True, "transformation spark.transform.sql: it becomes 5 bytes, too many for a preview"),
        (5, True, None),
    ]
    after = found.records[4].after
    assert after is not None
    assert (found.records[4].timestamp, after.timestamp, after.key) == (1005, 5, Content("text", "[hidden]", 18))
    assert all(each.after is None for each in found.records[:4])
    assert "pepper-of" not in str(found)


async def test_heartbeats_are_shown_as_they_are() -> None:
    spark = FakeSpark()
    source = FakeSource(record("heartbeats", 1, b"\x00\x01"))
    for more, resolved in ((STATEMENT, PEPPER), (MASKED, {})):
        [shown] = (await previewed(source, more, resolved=resolved, spark=spark)).records
        assert (shown.remote_topic, shown.kept, shown.error) == ("A.heartbeats", True, None)
    assert spark.asked == []


async def test_nothing_is_shown_as_it_was_if_spark_does_not_answer() -> None:
    async def away(*_: object) -> list[TransformedRecord]:
        raise SparkAway("Spark did not answer")

    spark = FakeSpark()
    spark.transformed = away  # type: ignore[method-assign]
    with pytest.raises(SparkAway):
        await previewed(FakeSource(record("orders", 7, b"x")), STATEMENT, resolved=PEPPER, spark=spark)


async def test_a_statement_gets_the_newest_records_of_limited_bytes() -> None:
    spark = FakeSpark()
    half = bytes(STATEMENT_BYTES // 2 - 100)
    source = FakeSource(*(record("orders", offset, half) for offset in range(5)))
    found = await previewed(source, STATEMENT, resolved=PEPPER, spark=spark)
    assert [each.offset for each in found.records] == [each.offset for each in spark.asked] == [3, 4]
    assert found.line is not None
    assert "leaves out the 3 oldest" in found.line
    large = FakeSource(record("orders", 1, b"x"), record("orders", 2, bytes(STATEMENT_BYTES)))
    none = await previewed(large, STATEMENT, resolved=PEPPER, spark=spark)
    assert (none.records, len(spark.asked)) == ([], 2)


async def test_a_connector_that_copies_no_records_has_no_preview() -> None:
    with pytest.raises(ConfigError, match="only a MirrorSourceConnector"):
        await previewed(FakeSource(), {"connector.class": "MirrorHeartbeatConnector"})


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        pytest.param(None, None, id="null"),
        pytest.param(b"", Content("text", "", 0), id="empty"),
        pytest.param("ü".encode(), Content("text", "ü", 2), id="text"),
        pytest.param(b"\x00\xff", Content("base64", "AP8=", 2), id="bytes"),
        pytest.param(
            b"a" + "ü".encode() * SHOWN_BYTES,
            Content("text", "a" + "ü" * (SHOWN_BYTES // 2 - 1), 1 + 2 * SHOWN_BYTES),
            id="a_character_is_cut_in_two",
        ),
    ],
)
def test_content_is_text_or_base64_and_limited(content: bytes | None, shown: Content | None) -> None:
    assert Content.of(content) == shown


def shown_of(found: PreviewedRecord) -> dict[str, object] | None:
    """The texts of what a record becomes."""
    after = found.after
    if after is None:
        return None
    return {
        "key": after.key and after.key.data,
        "value": after.value and after.value.data,
        "headers": {each.key: each.value and each.value.data for each in after.headers},
    }
