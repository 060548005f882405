"""Own cluster or another one: told by cluster id, asked for once, and never on behalf of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.worker_connectors import target_choice
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.errors import ClusterUnreachable

IDS = {"own:1": "own", "own:2": "own", "other:1": "other"}


class Worker:
    offset_topic = "offsets"

    def client(self, kind: str) -> dict[str, str]:
        return {"bootstrap.servers": "own:1", "kind": kind}

    def own_client(self) -> dict[str, str]:
        return {"bootstrap.servers": "own:1"}

    def internal_topics(self, *, own_cluster: bool) -> frozenset[str]:
        return frozenset({"configs", "offsets", "statuses"} if own_cluster else {"offsets"})


class Admins:
    """Stands for ClusterAdmin; `silent` addresses answer when `let_go` is set."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.silent: set[str] = set()
        self.away: set[str] = set()
        self.let_go = threading.Event()

    def __call__(self, properties: Mapping[str, str], what: str, timeout: float) -> Admins._One:
        return Admins._One(self, properties["bootstrap.servers"])

    class _One:
        def __init__(self, admins: Admins, address: str) -> None:
            self.admins, self.address = admins, address

        def cluster_id(self) -> str:
            self.admins.asked.append(self.address)
            if self.address in self.admins.silent:
                self.admins.let_go.wait(10)
            if self.address in self.admins.away:
                raise ClusterUnreachable("away")
            return IDS[self.address]


@pytest.fixture
def admins(monkeypatch: pytest.MonkeyPatch) -> Admins:
    made = Admins()
    monkeypatch.setattr(target_choice, "ClusterAdmin", made)
    return made


@pytest.fixture
def chooser(admins: Admins) -> TargetChooser:
    return TargetChooser(cast("WorkerConfig", Worker()))


def config(address: str | None = None, **more: str) -> dict[str, str]:
    named = {} if address is None else {"target.cluster.bootstrap.servers": address}
    return {**named, **{name.replace("__", "."): value for name, value in more.items()}}


def test_without_a_target_cluster_it_is_the_workers_own(chooser: TargetChooser, admins: Admins) -> None:
    target = chooser.choose(config(producer__override__acks="1"))
    assert (target.own, target.producer, admins.asked) == (
        True,
        {"bootstrap.servers": "own:1", "kind": "producer", "acks": "1"},
        [],
    )


def test_the_own_cluster_by_another_address_is_written_to_as_the_worker_does(chooser: TargetChooser) -> None:
    target = chooser.choose(config("own:2", target__producer__acks="1"))
    assert (target.own, target.producer["bootstrap.servers"], target.producer["kind"]) == (True, "own:1", "producer")


def test_another_cluster_is_written_to_as_the_connector_says(chooser: TargetChooser) -> None:
    target = chooser.choose(config("other:1", target__producer__linger__ms="1", producer__override__acks="1"))
    assert (target.own, target.producer) == (False, {"bootstrap.servers": "other:1", "linger.ms": "1", "acks": "1"})


def test_no_copy_may_be_one_of_the_workers_own_topics(chooser: TargetChooser) -> None:
    reserved = tuple(chooser.choose(each).reserved for each in (config("own:2"), config(), config("other:1")))
    all_three = {"configs", "offsets", "statuses"}
    # On another cluster there are the source offsets of the connectors that write there.
    assert reserved == (all_three, all_three, {"offsets"})


def test_a_cluster_is_asked_for_its_id_once(chooser: TargetChooser, admins: Admins) -> None:
    for _ in range(5):
        chooser.choose(config("other:1"))
    assert sorted(admins.asked) == ["other:1", "own:1"]


def test_what_could_not_be_learned_is_asked_again(chooser: TargetChooser, admins: Admins) -> None:
    admins.away.add("other:1")
    with pytest.raises(ClusterUnreachable):
        chooser.choose(config("other:1"))
    admins.away.clear()
    assert not chooser.choose(config("other:1")).own


async def test_a_silent_cluster_is_waited_for_by_many_and_asked_by_one(chooser: TargetChooser, admins: Admins) -> None:
    admins.silent.add("other:1")
    waiting = [asyncio.create_task(chooser.chosen(config("other:1"))) for _ in range(50)]
    await asyncio.sleep(0.05)
    other = await chooser.chosen(config("own:2"))
    admins.let_go.set()
    found = await asyncio.gather(*waiting)
    assert other.own
    assert ({each.own for each in found}, admins.asked.count("other:1")) == ({False}, 1)


async def test_each_connector_gets_its_own_settings_from_a_shared_answer(chooser: TargetChooser) -> None:
    one, two = await asyncio.gather(
        chooser.chosen(config("other:1", producer__override__acks="1")),
        chooser.chosen(config("other:1", producer__override__acks="all")),
    )
    assert (one.producer["acks"], two.producer["acks"]) == ("1", "all")


@pytest.mark.parametrize(
    ("config_", "name"),
    [
        pytest.param(config(producer__override__bootstrap__servers="other:1"), "producer.override", id="override"),
        pytest.param(config("own:2", producer__bootstrap__servers="other:1"), "producer", id="of_both_sides"),
        pytest.param(
            config("other:1", target__producer__bootstrap__servers="own:1"), "target.producer", id="of_the_target"
        ),
    ],
)
async def test_a_producer_that_leads_to_another_cluster_than_the_targets_is_told(
    config_: dict[str, str], name: str, chooser: TargetChooser, admins: Admins
) -> None:
    [line] = await chooser.errors(config_)
    assert line.startswith(f"Invalid {name}.bootstrap.servers: it leads to cluster ")


@pytest.mark.parametrize(
    "config_",
    [
        pytest.param(config("other:1", producer__override__bootstrap__servers="other:1"), id="same_address"),
        pytest.param(config("own:1", producer__override__bootstrap__servers="own:2"), id="same_cluster"),
        pytest.param(config("other:1"), id="no_address_of_its_own"),
    ],
)
async def test_a_producer_of_the_targets_cluster_is_no_error(
    config_: dict[str, str], chooser: TargetChooser, admins: Admins
) -> None:
    assert await chooser.errors(config_) == []


async def test_a_producers_cluster_that_does_not_answer_is_no_error(chooser: TargetChooser, admins: Admins) -> None:
    admins.away = {"other:1"}
    assert await chooser.errors(config(producer__override__bootstrap__servers="other:1")) == []


def test_another_target_cluster_is_said_once(
    chooser: TargetChooser, admins: Admins, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        chooser.choose(config("other:1", name="a"))
    assert [line.split(";")[0] for line in caplog.messages] == ["Connector a: other:1 is not the worker's own cluster"]


def test_the_workers_own_cluster_is_nothing_to_speak_of(
    chooser: TargetChooser, admins: Admins, caplog: pytest.LogCaptureFixture
) -> None:
    chooser.choose(config("own:2", name="a"))
    assert caplog.messages == []


def test_what_is_remembered_of_a_login_is_no_login(chooser: TargetChooser) -> None:
    chooser.choose(config("other:1", target__cluster__sasl__jaas__config="hunter22"))
    chooser.choose(config("other:1", target__cluster__sasl__jaas__config="hunter22"))
    assert len(chooser._ids) == 2
    assert "hunter22" not in repr(vars(chooser))
