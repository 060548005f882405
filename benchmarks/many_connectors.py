"""A worker with hundreds of connectors: from the start of its process until REST has told of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import httpx

from benchmarks.console import Console
from benchmarks.figures import median
from benchmarks.plan import MANY_CONNECTORS, Durations
from benchmarks.rig import Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, SideError, connector_config, open_side

EVERYTHING: Final = "/connectors?expand=status&expand=info"
TOPIC: Final = "data"
STOPPED: Final = "STOPPED"
RUNNING: Final = "RUNNING"
PATIENCE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Seconds. `created`: to create them all, one request after the other; `answered`: from the start of the process to the
    end of the first answer that has status and info of all, the median of all starts; `later_worst`: the longest
    of the answers to the same question afterwards, while connectors start.
    """

    side: str
    state: str
    connectors: int
    starts: int
    created: float
    answered: float
    answered_worst: float
    later_worst: float


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Every side with stopped connectors; this product with running ones, too."""
    found = []
    with Rig() as rig:
        rig.create_source_topic(TOPIC, 1)
        crowds = [(name, state) for name in sides for state in ((STOPPED, RUNNING) if name == OURS else (STOPPED,))]
        created = {each: _create(rig, *each) for each in crowds}
        starts: dict[tuple[str, str], list[tuple[float, float]]] = {each: [] for each in crowds}
        for number in range(durations.starts):
            # Every other round backwards, so that nobody is always the first one.
            for each in crowds if number % 2 == 0 else crowds[::-1]:
                starts[each].append(_start(rig, *each, durations))
        for (name, state), times in starts.items():
            answered, later = ([one[index] for one in times] for index in (0, 1))
            crowd = Crowd(
                name,
                state,
                MANY_CONNECTORS,
                len(times),
                created[name, state],
                median(answered),
                max(answered),
                max(later),
            )
            console.say(
                f"{LABELS[name]}, {crowd.connectors} connectors {state}: all answered {crowd.answered:.2f} s after the"
                f" start of the process (worst {crowd.answered_worst:.2f}), then within {crowd.later_worst:.2f} s"
            )
            found.append(crowd)
    return [asdict(each) for each in found]


def _start(rig: Rig, name: str, state: str, durations: Durations) -> tuple[float, float]:
    """Seconds until all are told of, and of the longest answer afterwards."""
    with open_side(name, rig.target, _suffix(state)) as side, _asking(side) as ask:
        _wait_told(side, ask)
        return time.monotonic() - side.began, _worst(ask, durations.many_connectors_after)


def _suffix(state: str) -> str:
    return f"-{state.lower()}"


def _create(rig: Rig, name: str, state: str) -> float:
    with open_side(name, rig.target, _suffix(state)) as side, _client(side) as client, _asking(side) as ask:
        side.wait_answering()
        began = time.monotonic()
        for number in range(MANY_CONNECTORS):
            config = connector_config(rig.source, rig.target, f"{name}{number}", TOPIC)
            body = {"name": f"copy-{number}", "config": config, "initial_state": state}
            _post(client, body, began + PATIENCE_S)
        created = time.monotonic() - began
        # What has no status yet is not told of, by either side.
        _wait_told(side, ask)
        return created


def _wait_told(side: Side, ask: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not ask():
        if time.monotonic() > until:
            raise SideError(f"{LABELS[side.name]}: {MANY_CONNECTORS} connectors are not told of after {PATIENCE_S:g} s")
        side.check_alive()
        time.sleep(0.02)


def _post(client: httpx.Client, body: Any, until: float) -> None:
    while (answer := client.post("/connectors", json=body)).status_code != httpx.codes.CREATED:
        # As in Connect, 409 passes: the worker is about to lead.
        if answer.status_code != httpx.codes.CONFLICT or time.monotonic() > until:
            raise SideError(f"A connector was not created: {answer.status_code} {answer.text[:300]}")
        time.sleep(0.2)


@contextmanager
def _client(side: Side) -> Iterator[httpx.Client]:
    # Plain HTTP: no certificates to read.
    with httpx.Client(base_url=side.url, timeout=60, verify=False) as client:
        yield client


@contextmanager
def _asking(side: Side) -> Iterator[Callable[[], bool]]:
    with _client(side) as client:

        def ask() -> bool:
            try:
                answer = client.get(EVERYTHING)
            except httpx.TransportError:
                return False
            if answer.status_code != httpx.codes.OK:
                return False
            told: dict[str, Any] = answer.json()
            return len(told) == MANY_CONNECTORS and all({"status", "info"} <= each.keys() for each in told.values())

        yield ask


def _worst(ask: Callable[[], bool], seconds: float) -> float:
    until = time.monotonic() + seconds
    worst = 0.0
    while (began := time.monotonic()) < until:
        if not ask():
            raise SideError("A worker that had told of all connectors did not do so again")
        worst = max(worst, time.monotonic() - began)
        time.sleep(0.2)
    return worst
