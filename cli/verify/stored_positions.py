"""How far a link has come, read from its offsets topic: for workers whose REST interface does not tell."""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.cli.verify.link import Client, Positions
from mirror_connect.cli.verify.rate import Rate
from mirror_connect.cli.verify.reading import CannotCompareError, ClusterReader
from mirror_connect.connectors.positions import parse_position_key, parse_position_value
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin
from mirror_connect.kafka_io.wire import EARLIEST, LATEST
from mirror_connect.spark_jobs.fetched import SourcePartition
from mirror_connect.spark_jobs.record_batch import CorruptBatchError
from mirror_connect.spark_jobs.record_reading import read_records

_ADMIN_S: Final = 30.0


async def stored_positions(client: Client, topic: str, source_alias: str, connector: str | None) -> Positions:
    """The positions that `topic` holds for a connector, or for any that copies from `source_alias`: then the lowest.

    `client`: of the cluster that has the topic. CannotCompareError if it isn't there or can't be read.
    """
    try:
        partitions = await asyncio.to_thread(ClusterAdmin(client.admin, "the target cluster", _ADMIN_S).topics)
    except AdminError as error:
        raise CannotCompareError(str(error)) from None
    if topic not in partitions:
        raise CannotCompareError(f"the target cluster has no topic {topic}: positions can't be read from it")
    reader = ClusterReader("target", client.consumer, committed=True, rate=Rate(None), on_notice=lambda _line: None)
    latest: dict[bytes, bytes | None] = {}
    fetching: asyncio.Task[None] | None = None
    try:
        await reader.open([topic])
        keys = [(topic, number) for number in range(partitions[topic])]
        first = await reader.offsets(dict.fromkeys(keys, EARLIEST))
        last = await reader.offsets(dict.fromkeys(keys, LATEST))
        fetching = asyncio.create_task(reader.fetcher.run())
        for key in keys:
            log = reader.log(SourcePartition(*key), first[key] or 0, last[key] or 0)
            while (fetched := await log.read()) is not None:
                latest.update((record.key, record.value) for record in read_records(fetched) if record.key is not None)
                fetched.release()
    except CorruptBatchError as error:
        raise CannotCompareError(f"topic {topic} is damaged at {error}") from None
    finally:
        if fetching is not None:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)
        await reader.close()
    found: dict[tuple[str, int], int] = {}
    for stored, value in latest.items():
        position, offset = parse_position_key(stored), parse_position_value(value)
        if position is None or offset is None or position.cluster != source_alias:
            continue
        if connector not in (None, position.connector):
            continue
        place = position.topic, position.partition
        found[place] = min(offset, found.get(place, offset))
    return found
