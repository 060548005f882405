"""Copied ACLs in the offsets topic: what a round's thread meets with when its connector is stopped meanwhile."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.connector_part import stored_acls
from mirror_connect.app.connector_part.stored_acls import StoredAcls
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.connectors.acl_rules import AclBinding
from mirror_connect.connectors.errors import ClusterUnreachable

GIVEN = AclBinding(
    resource="TOPIC",
    pattern="LITERAL",
    name="orders",
    principal="User:ada",
    host="*",
    operation="READ",
    permission="ALLOW",
)
COPIES = {GIVEN.of: {GIVEN: [GIVEN]}}


class Silent:
    """An offsets topic that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.given_up = asyncio.Event()

    async def put(self, *_: object) -> None:
        self.asked.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.given_up.set()


def stored(store: Silent) -> StoredAcls:
    async def offsets_of(_: Mapping[str, str]) -> OffsetStore:
        return cast("OffsetStore", store)

    return StoredAcls("c", {}, offsets_of)


async def test_a_round_that_waits_for_the_offsets_topic_ends_with_its_connector() -> None:
    store = Silent()
    acls = stored(store)
    waiting = asyncio.create_task(asyncio.to_thread(acls.save, COPIES))
    await store.asked.wait()
    began = time.monotonic()
    acls.close()
    with pytest.raises(ClusterUnreachable, match="the connector is stopped"):
        await waiting
    assert store.given_up.is_set()
    assert time.monotonic() - began < stored_acls.PATIENCE_S / 2


async def test_a_round_that_comes_later_asks_nobody_and_leaves_nothing_behind() -> None:
    store = Silent()
    acls = stored(store)
    acls.close()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ClusterUnreachable, match="the connector is stopped"):
            await asyncio.to_thread(acls.save, COPIES)
        gc.collect()
    assert (store.asked.is_set(), told) == (False, [])


async def test_an_offsets_topic_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_acls, "PATIENCE_S", 0.05)
    store = Silent()
    with pytest.raises(ClusterUnreachable, match=r"the offsets topic does not answer within 0\.05 s"):
        await asyncio.to_thread(stored(store).save, COPIES)
    async with asyncio.timeout(30):
        await store.given_up.wait()
