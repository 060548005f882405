"""Copied ACLs in the offsets topic: what a round's thread meets with when its connector is stopped meanwhile."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors import stored_acls
from mirror_connect.app.worker_connectors.stored_acls import StoredAcls
from mirror_connect.connectors.acls import AclBinding
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


class Slow:
    """An offsets topic that takes its time, and keeps what it is given."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.kept: list[object] = []

    async def put(self, _: str, offsets: list[object]) -> None:
        self.asked.set()
        await self.goes_on.wait()
        self.kept += offsets


class Failing:
    """An offsets topic that fails in a way of its own."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def put(self, *_: object) -> None:
        raise self._error


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


def stored(store: Silent | Slow | Failing) -> StoredAcls:
    async def offsets_of(_: Mapping[str, str]) -> OffsetStore:
        return cast("OffsetStore", store)

    return StoredAcls("c", {}, offsets_of)


async def test_a_removal_that_is_being_stored_is_stored_before_its_connector_has_ended() -> None:
    store = Slow()
    acls = stored(store)
    # The copy is off the target: kept here, it would take away what somebody gives there by hand before the next start.
    saving = asyncio.create_task(asyncio.to_thread(acls.save, {GIVEN.of: {}}))
    await store.asked.wait()
    closing = asyncio.create_task(acls.close())
    await asyncio.sleep(0)
    store.goes_on.set()
    await closing
    await saving
    assert len(store.kept) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(TimeoutError("no leader for 5 s"), "in time: no leader for 5 s", id="time_ran_out"),
        pytest.param(TimeoutError(), "in time$", id="time_ran_out_without_a_word"),
        pytest.param(asyncio.CancelledError(), "was cancelled", id="cancelled"),
    ],
)
async def test_how_the_offsets_topic_itself_failed_is_told_as_it_was(error: BaseException, told: str) -> None:
    # Neither has the time of a round run out, nor is its connector stopped.
    with pytest.raises(ClusterUnreachable, match=told):
        await asyncio.to_thread(stored(Failing(error)).save, COPIES)


async def test_a_round_that_waits_for_the_offsets_topic_ends_with_its_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_acls, "CLOSING_S", 0.05)
    store = Silent()
    acls = stored(store)
    waiting = asyncio.create_task(asyncio.to_thread(acls.save, COPIES))
    await store.asked.wait()
    began = time.monotonic()
    await acls.close()
    with pytest.raises(ClusterUnreachable, match="the connector is stopped"):
        await waiting
    assert store.given_up.is_set()
    assert time.monotonic() - began < stored_acls.PATIENCE_S / 2


async def test_a_round_that_comes_later_asks_nobody_and_leaves_nothing_behind() -> None:
    store = Silent()
    acls = stored(store)
    await acls.close()
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
