"""A worker that copies ends or is killed, and another one of its group goes on, or it is started again: how long nothing is
copied.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import psutil

from benchmarks.console import Console
from benchmarks.figures import median
from benchmarks.findings import Aim, Table
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.pairing import Arrival
from benchmarks.plan import LATENCY_RECORD_BYTES, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, NONE, OURS, Side, SideError, connector_config, open_side

TOPIC: Final = "taken"
RATE: Final = 200
CONNECTOR: Final = "copy"
# Kafka's default of the first one; it waits 5 minutes for a lost worker unless it is told to wait for nobody.
SESSION_S: Final = 10.0
PROPERTIES: Final = {"session.timeout.ms": "10000", "scheduled.rebalance.max.delay.ms": "0"}
CLEAN: Final = "clean end (SIGTERM)"
KILL: Final = "kill -9"
EVENTS: Final = (CLEAN, KILL)
# A single worker, which is started again as soon as nothing of it is left.
RESTART: Final = "kill -9 and a start, alone"
RESTART_ONCE: Final = f"{RESTART}, exactly-once"
RESTARTS: Final = {RESTART: NONE, RESTART_ONCE: {"exactly.once.source.support": "enabled"}}
# Records are sent for so long before the event, and after it.
BEFORE_S: Final = 3.0
AFTER_S: Final = {CLEAN: 25.0, KILL: 45.0, RESTART: 90.0, RESTART_ONCE: 90.0}
PATIENCE_S: Final = 120.0
AIM_S: Final = {CLEAN: 2.0, KILL: SESSION_S + 2.0, RESTART: SESSION_S + 5.0, RESTART_ONCE: SESSION_S + 5.0}
# What a worker does in the background after it has joined: the next event comes later.
SETTLED_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds: from the event to the arrival of the record that came latest after its sending, and how late it was.

    A pause in what arrives would also be one of a sender that the machine keeps waiting.

    `lost`: records that were sent and did not arrive; `repeated`: arrivals of records that had arrived before.
    """

    after: float
    pause: float
    lost: int
    repeated: int


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Each side by itself: brokers of its own, two workers, one connector with one task. Then a worker alone."""
    found = []
    for name in sides:
        with Rig() as rig:
            found += _side(rig, name, durations, console)
        for event in RESTARTS:
            with Rig() as rig:
                found.append(_alone(rig, name, event, durations, console))
    return found


def _side(rig: Rig, name: str, durations: Durations, console: Console) -> list[dict[str, Any]]:
    rig.create_source_topic(TOPIC, 1)
    found = []
    with (
        open_side(name, rig.target, properties=PROPERTIES) as first,
        open_side(name, rig.target, properties=PROPERTIES) as second,
    ):
        pair = (first, second)
        first.wait_answering()
        first.put(CONNECTOR, connector_config(rig.source, rig.target, name, TOPIC))
        first.wait_running(CONNECTOR)
        second.wait_answering()
        send(rig.source, TOPIC, 1, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
        rig.wait_for_first_record(f"{name}.{TOPIC}", 1, PATIENCE_S)
        for event in EVENTS:
            pauses = []
            for _ in range(durations.takeovers):
                time.sleep(SETTLED_S)
                pauses.append(_round(rig, pair, name, event))
                console.say(
                    f"{LABELS[name]}, {event}: the next owner copies after {pauses[-1].after:.2f} s, a record"
                    f" was {pauses[-1].pause:.2f} s late, {pauses[-1].lost} lost, {pauses[-1].repeated} repeated"
                )
            found.append(_figures(name, event, pauses))
    return found


def _alone(rig: Rig, name: str, event: str, durations: Durations, console: Console) -> dict[str, Any]:
    rig.create_source_topic(TOPIC, 1)
    pauses = []
    with open_side(name, rig.target, properties={**PROPERTIES, **RESTARTS[event]}) as side:
        side.wait_answering()
        side.put(CONNECTOR, connector_config(rig.source, rig.target, name, TOPIC))
        side.wait_running(CONNECTOR)
        send(rig.source, TOPIC, 1, Load(100, 0.0, 1.0, LATENCY_RECORD_BYTES))
        rig.wait_for_first_record(f"{name}.{TOPIC}", 1, PATIENCE_S)
        for _ in range(durations.takeovers):
            time.sleep(SETTLED_S)
            pauses.append(_round(rig, (side,), name, event))
            console.say(
                f"{LABELS[name]}, {event}: it copies after {pauses[-1].after:.2f} s, a record was {pauses[-1].pause:.2f} s"
                f" late, {pauses[-1].lost} lost, {pauses[-1].repeated} repeated"
            )
    return _figures(name, event, pauses)


def _round(rig: Rig, pair: Sequence[Side], name: str, event: str) -> Pause:
    owner = _owner(pair)
    load = Load(RATE, 0.0, BEFORE_S + AFTER_S[event], LATENCY_RECORD_BYTES)
    with Receiver(rig.target, f"{name}.{TOPIC}", 1) as receiver, ThreadPoolExecutor(1) as sender:
        sending = sender.submit(send, rig.source, TOPIC, 1, load)
        time.sleep(BEFORE_S)
        at = time.monotonic()
        end(owner, event)
        if event in RESTARTS:
            _start_again(owner)
        # Records that were never sent are not lost.
        sending.result()
        time.sleep(AFTER_LAST_S)
        pause = longest_pause(receiver.arrivals(), at, load.measured)
    if event not in RESTARTS:
        _start_again(owner)
    owner.wait_answering()
    for each in pair:
        each.wait_running(CONNECTOR)
    return pause


def _start_again(side: Side) -> None:
    # All of it is gone before the same files and port are used again.
    _wait_ended(side)
    side.start()


def end(side: Side, event: str) -> None:
    """SIGTERM to the worker, or kill -9 to all its processes at once, by the event."""
    root, *others = side.tree().pids()
    for pid in (root,) if event == CLEAN else (root, *others):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if event == CLEAN else signal.SIGKILL)


def _wait_ended(side: Side) -> None:
    until = time.monotonic() + PATIENCE_S
    while any(_runs(pid) for pid in side.tree().pids()):
        if time.monotonic() > until:
            raise SideError(f"{LABELS[side.name]} has not ended after {PATIENCE_S:g} s")
        time.sleep(0.1)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _owner(pair: Sequence[Side]) -> Side:
    """The worker that runs the task."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for asked in pair:
            # A status may still be that of a worker that has ended.
            asked.wait_running(CONNECTOR)
            port = asked.status(CONNECTOR)["tasks"][0]["worker_id"].rpartition(":")[2]
            found = next((each for each in pair if str(urlsplit(each.url).port) == port), None)
            if found is not None:
                return found
        time.sleep(0.5)
    raise SideError(f"{LABELS[pair[0].name]} does not say which worker runs the task")


def longest_pause(arrivals: Sequence[Arrival], at: float, sent: int) -> Pause:
    """Of the arrivals at the target's consumer; the event was `at` this time. ValueError if nothing came after it."""
    came: dict[int, tuple[float, float]] = {}
    for number, sending, arrived in sorted(arrivals, key=lambda each: each[2]):
        came.setdefault(number, (arrived - sending, arrived))
    late = [each for each in came.values() if each[1] > at]
    if not late:
        raise ValueError("no record was copied after the event")
    pause, ended = max(late)
    return Pause(ended - at, pause, sent - len(came), len(arrivals) - len(came))


def _figures(side: str, event: str, pauses: Sequence[Pause]) -> dict[str, Any]:
    return {
        "side": side,
        "event": event,
        "after": median([each.after for each in pauses]),
        "after_worst": max(each.after for each in pauses),
        "pause": median([each.pause for each in pauses]),
        "pause_worst": max(each.pause for each in pauses),
        "lost": sum(each.lost for each in pauses),
        "repeated": sum(each.repeated for each in pauses),
        "rounds": [asdict(each) for each in pauses],
    }


def findings(figures: Sequence[Mapping[str, Any]]) -> tuple[Table, list[Aim]]:
    """A row for each side and event."""
    rows, aims = [], []
    for each in figures:
        rows.append(
            (
                f"{LABELS[each['side']]}, {each['event']} ({len(each['rounds'])} times)",
                *(f"{each[name]:.2f} ({each[f'{name}_worst']:.2f})" for name in ("after", "pause")),
                f"{each['lost']:,}",
                f"{each['repeated']:,}",
            )
        )
        if each["side"] == OURS:
            wanted = AIM_S[each["event"]]
            met = each["after_worst"] <= wanted and not each["lost"]
            said = f"{each['after_worst']:.2f} s at worst, {each['lost']} lost"
            what = "A worker goes on after" if each["event"] in RESTARTS else "Take-over after a"
            aims.append(Aim(f"{what} {each['event']}", said, f"≤ {wanted:g} s, none lost", met))
    head = (
        "s (worst)",
        "from the event to the first record that is copied again",
        "the latest record came after",
        "lost",
        "repeated",
    )
    return Table(head, rows), aims
