"""A side's turn in the throughput: how long it copies, each time anew, and that it waits with nothing to do afterwards."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import throughput
from benchmarks.figures import Sample
from benchmarks.plan import Durations
from benchmarks.throughput import Copier, Work


class Recorder:
    """Stands for a side and for the target: remembers in order what it is told."""

    def __init__(self) -> None:
        self.name = self.group = "mm2"
        self.told: list[str] = []

    def put(self, connector: str, config: dict[str, str]) -> None:
        self.told.append(f"{config['source.cluster.alias']} copies {config['topics']}")

    def wait_running(self, connector: str) -> None:
        self.told.append("running")

    def delete_topic(self, topic: str) -> None:
        self.told.append(f"deleted {topic}")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each copying may take; each of them copies for 4 s, or for as long as it may."""
    asked: list[float] = []

    def watch(_rig: object, _side: object, _remote: str, _expected: int, seconds: float, **_: int) -> list[Sample]:
        asked.append(seconds)
        ends = min(4.0, seconds)
        return [Sample(at, 1 + int(1000 * at), at, {}, 0.0, 0.0) for at in (0.0, 1.0, ends)]

    monkeypatch.setattr(throughput, "watch", watch)
    monkeypatch.setattr(throughput, "SteadyFeed", lambda *_: nullcontext())
    monkeypatch.setattr("time.sleep", lambda _: None)
    return asked


def copier(recorder: Recorder, durations: Durations) -> Copier:
    cluster = SimpleNamespace(client_properties=lambda: {"bootstrap.servers": "127.0.0.1:9092"})
    rig = SimpleNamespace(
        source=cluster,
        source_addresses="127.0.0.1:9092",
        target=SimpleNamespace(
            client_properties=lambda: {"bootstrap.servers": "127.0.0.1:9093"}, delete_topic=recorder.delete_topic
        ),
        create_source_topic=lambda *_: None,
        wait_for_first_record=lambda *_: None,
    )
    work = SimpleNamespace(
        rig=rig,
        profile=SimpleNamespace(append_time=False, config_copied=False, filtered=False),
        pool=[],
        fed=SimpleNamespace(records=10),
        durations=durations,
        console=SimpleNamespace(say=lambda _: None),
    )
    return Copier(cast(Work, work), cast(Any, recorder))


def test_a_turn_copies_again_until_its_share_of_time_is_over(asked: list[float]) -> None:
    recorder = Recorder()
    span = copier(recorder, Durations(copy_java=20.0, rounds=4, settle=1.0)).turn()
    # 3 s of the first copying count, 2 s of the second one: together the share of 5 s.
    assert (span.seconds, asked) == (5.0, [6.0, 3.0])


def test_what_counts_begins_after_the_start_of_each_copying(asked: list[float]) -> None:
    span = copier(Recorder(), Durations(copy_java=8.0, rounds=4, settle=1.0)).turn()
    assert (span.seconds, span.records) == (2.0, 2000)


def test_no_copying_is_so_short_that_it_is_mostly_its_start(asked: list[float]) -> None:
    copier(Recorder(), Durations(copy_java=2.0, rounds=4, settle=1.0)).turn()
    assert asked == [1.0 + throughput.LEAST_COPY_S]


def test_a_side_goes_back_to_its_small_topic_before_its_copies_are_deleted(asked: list[float]) -> None:
    recorder = Recorder()
    turns = copier(recorder, Durations(copy_java=20.0, rounds=4, settle=1.0))
    for _ in throughput._turns({"mm2": turns}, at_once=False):
        pass
    assert recorder.told == [
        "mm2 copies warm-mm2",
        "mm2-1 copies data",
        "mm2-2 copies data",
        "mm2 copies warm-mm2",
        "running",
        "deleted mm2-1.data",
        "deleted mm2-2.data",
    ]


def test_no_copy_of_a_later_turn_has_the_name_of_an_earlier_one(asked: list[float]) -> None:
    recorder = Recorder()
    turns = copier(recorder, Durations(copy_java=20.0, rounds=4, settle=1.0))
    turns.turn()
    turns.turn()
    copies = [told for told in recorder.told if told.endswith("copies data")]
    assert len(copies) == len(set(copies)) == 4
