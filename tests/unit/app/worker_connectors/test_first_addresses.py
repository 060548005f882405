"""A task whose cluster has no address fails at its start, after some tries; one that has run never does."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.worker_connectors import first_addresses
from mirror_connect.app.worker_connectors.first_addresses import FirstAddresses
from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ADDRESS_ADVICE, AddressUnknown
from mirror_connect.connectors.task_protocol import TaskId

TASK = TaskId("a", 0)


class Names:
    """A name server that knows some hosts."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = set(hosts)
        self.asked = 0

    def __call__(self, host: str, port: int) -> bool:
        self.asked += 1
        return host in self.hosts


def to(servers: str) -> dict[str, dict[str, str]]:
    return {"target cluster": {"bootstrap.servers": servers}}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_addresses, "TRIED_FOR_S", 0.0)


async def test_one_address_of_several_is_enough() -> None:
    names = Names("b2")
    addresses = FirstAddresses(names)
    await addresses.check(TASK, "run-1", to("b1:9092,b2:9092"))
    assert names.asked == 2


async def test_a_run_is_looked_at_once() -> None:
    names = Names("b1")
    addresses = FirstAddresses(names)
    await addresses.check(TASK, "run-1", to("b1:9092"))
    names.hosts.clear()
    await addresses.check(TASK, "run-1", to("b1:9092"))
    assert names.asked == 1


async def test_a_cluster_without_an_address_is_tried_again_and_then_refused() -> None:
    addresses = FirstAddresses(Names())
    for _ in range(2):
        with pytest.raises(AddressUnknown):
            await addresses.check(TASK, "run-1", to("b1:9092"))
    with pytest.raises(RefusedConfig) as refused:
        await addresses.check(TASK, "run-1", to("b1:9092"))
    line = f"No resolvable bootstrap urls given in bootstrap.servers of the target cluster: b1:9092. {ADDRESS_ADVICE}"
    assert str(refused.value) == line


async def test_quick_tries_do_not_wear_out_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_addresses, "TRIED_FOR_S", 600.0)
    addresses = FirstAddresses(Names())
    for _ in range(5):
        with pytest.raises(AddressUnknown):
            await addresses.check(TASK, "run-1", to("b1:9092"))
        await asyncio.sleep(0)


async def test_a_refused_task_that_is_restarted_is_refused_at_once_or_runs() -> None:
    names = Names()
    addresses = FirstAddresses(names)
    for _ in range(2):
        with pytest.raises(AddressUnknown):
            await addresses.check(TASK, "run-1", to("b1:9092"))
    for run in ("run-1", "run-2"):
        with pytest.raises(RefusedConfig):
            await addresses.check(TASK, run, to("b1:9092"))
    names.hosts.add("b1")
    await addresses.check(TASK, "run-3", to("b1:9092"))
    names.hosts.clear()
    with pytest.raises(AddressUnknown):
        await addresses.check(TASK, "run-4", to("b1:9092"))


async def test_the_next_run_has_tries_of_its_own() -> None:
    addresses = FirstAddresses(Names())
    for run in ("run-1", "run-1", "run-2", "run-2"):
        with pytest.raises(AddressUnknown):
            await addresses.check(TASK, run, to("b1:9092"))


async def test_a_task_that_was_refused_and_came_again_has_tries_of_its_own() -> None:
    addresses = FirstAddresses(Names())
    for _ in range(2):
        with pytest.raises(AddressUnknown):
            await addresses.check(TASK, "run-1", to("b1:9092"))
    with pytest.raises(RefusedConfig):
        await addresses.check(TASK, "run-1", to("b1:9092"))
    addresses.keep(())
    with pytest.raises(AddressUnknown):
        await addresses.check(TASK, "run-2", to("b1:9092"))
