"""A record that can not be transformed, among many, between two real clusters: no other is skipped, and none is repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.record_errors import TransformationError
from tests.fakes.source_spec import WITHOUT_SYNCS
from tests.integration.mirror_rig import produce, read, running, spec_for, stored_offsets
from tests.integration.source_task.copied_topics import BEGUN, mirrored_topic

pytestmark = [pytest.mark.brokers, pytest.mark.long]

MASK = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
}
MARKED = {
    "transforms.mask.predicate": "broken",
    "transforms.mask.negate": "true",
    "predicates": "broken",
    "predicates.broken.type": "HasHeaderKey",
    "predicates.broken.name": "broken",
}


def a_record(number: int, bad: int) -> Mapping[str, object]:
    value = b'{"card": ' if number == bad else b'{"card":"4111","n":%d}' % number
    headers = [("broken", b"1")] if number == bad else []
    return {"key": b"%d" % number, "value": value, "headers": headers, "partition": 0, "timestamp": BEGUN + number}


def numbers(target: LocalCluster, topic: str) -> list[int | None]:
    """The number in each copy, None for the one that was copied as it is."""
    found = []
    for each in read(target, topic):
        try:
            masked = json.loads(each.value or b"")
        except ValueError:
            found.append(None)
        else:
            assert masked["card"] == ""
            found.append(masked["n"])
    return found


@pytest.mark.parametrize(("count", "bad"), [(20_000, 13_337), pytest.param(1_000_000, 654_321, id="a_million")])
async def test_the_task_fails_in_front_of_it_and_goes_on_there_after_a_correction(
    source: LocalCluster, target: LocalCluster, count: int, bad: int
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, [a_record(number, bad) for number in range(count)], **{"compression.type": "lz4"})
    spec = spec_for(source, target, {topic: 1}, config={**WITHOUT_SYNCS, **MASK})
    for _ in range(2):
        # A restart without a correction changes nothing.
        async with running(spec, target) as task, asyncio.timeout(280):
            with pytest.raises(TransformationError, match=rf"{topic}, partition 0, offset {bad}: transformation mask"):
                await task.task
        assert stored_offsets(target, spec.connector) == {(topic, 0): bad - 1}
        assert numbers(target, f"A.{topic}") == list(range(bad))
    corrected = spec_for(
        source, target, {topic: 1}, connector=spec.connector, config={**WITHOUT_SYNCS, **MASK, **MARKED}
    )
    async with running(corrected, target) as task:
        await task.copied(count - bad)
        await task.finish()
    assert numbers(target, f"A.{topic}") == [*range(bad), None, *range(bad + 1, count)]


@pytest.mark.parametrize(("count", "bad"), [(20_000, 13_337), pytest.param(1_000_000, 654_321, id="a_million")])
async def test_it_alone_is_skipped_and_counted(
    source: LocalCluster, target: LocalCluster, count: int, bad: int
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, [a_record(number, bad) for number in range(count)], **{"compression.type": "lz4"})
    tolerant = {"errors.tolerance": "all", "errors.log.enable": "true"}
    spec = spec_for(source, target, {topic: 1}, config={**WITHOUT_SYNCS, **MASK, **tolerant})
    async with running(spec, target) as task:
        await task.copied(count - 1)
        await task.finish()
        (line,) = (each for each in task.link.log_lines if "can't take the record" in each)
        assert f"{topic}, partition 0, offset {bad}" in line
        assert "card" not in line
    assert numbers(target, f"A.{topic}") == [*range(bad), *range(bad + 1, count)]
    assert stored_offsets(target, spec.connector) == {(topic, 0): count - 1}
