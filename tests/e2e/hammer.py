"""Clients that ask and change everything at all workers of a group without a pause, and what is in force in the end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Self

import httpx

from tests.e2e.product import Product
from tests.waiting import wait_for, wait_for_state

PAUSE_S: Final = 0.05
# Longer than any worker waits for another one: what a client has given up may still be done.
CLIENT_S: Final = 150.0
SETTLED_S: Final = 180.0
# One restart of what is copied in so many steps of a client.
RESTART_EVERY: Final = 40
READS: Final = (
    "/connectors?expand=status&expand=info",
    "/",
    "/admin/links",
    "/admin/workers",
    "/connector-plugins",
    "/connectors/{some}/status",
    "/connectors/{some}/config",
    "/connectors/{some}/tasks",
)
# What a value is while there is no such connector.
ABSENT: Final = "absent"


class Answer(NamedTuple):
    """`code` 0: none came. `worker`: its number."""

    at: float
    took: float
    worker: int
    method: str
    path: str
    code: int
    text: str

    @property
    def is_failure(self) -> bool:
        """Whether a server said that it failed."""
        return self.code >= httpx.codes.INTERNAL_SERVER_ERROR


@dataclass
class Wish:
    """Something that one client changes again and again: the last value that was acknowledged, and those asked for since."""

    acknowledged: str
    since: list[str] = field(default_factory=list)

    @property
    def possible(self) -> set[str]:
        """What may be in force now."""
        return {self.acknowledged, *self.since}

    def answered(self, value: str, *, acknowledged: bool) -> None:
        """What came of the wish for `value`."""
        if acknowledged:
            self.acknowledged, self.since = value, []
        else:
            self.since.append(value)


class Hammer:
    """One client for each worker, from `with` to its end. Each changes two connectors of its own, at its worker:

    `keptN`: its config, and whether it is paused. `eleventhN`: whether there is one. And each restarts connectors and tasks
    that copy, of those in `copying`, while `restarts` is set. `config`: of a connector that copies nothing.
    """

    def __init__(self, workers: Sequence[Product], copying: Sequence[str], config: Mapping[str, str]) -> None:
        self.answers: list[Answer] = []
        self.restarts = True
        self._workers = workers
        self._copying = copying
        self._config = config
        self._stop = threading.Event()
        numbers = range(len(workers))
        self.values = [Wish("0") for _ in numbers]
        self.states = [Wish("RUNNING") for _ in numbers]
        self.eleventh = [Wish(ABSENT) for _ in numbers]
        self._threads = [threading.Thread(target=self._strike, args=(each,), daemon=True) for each in numbers]

    def __enter__(self) -> Self:
        for number in range(len(self._workers)):
            self._workers[0].put(f"kept{number}", self._value("0"))
            self._workers[0].call("PUT", f"/connectors/kept{number}/resume")
            wait_for_state(partial(self._is_gone, f"/connectors/eleventh{number}"), f"eleventh{number} is gone")
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(CLIENT_S + 10)

    def _is_gone(self, path: str) -> bool:
        return self._workers[0].rest.delete(path).status_code in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND)

    # What came of it.

    def look(self) -> None:
        """AssertionError unless at each worker all is in force that was acknowledged last, or asked for later."""
        try:
            wait_for(lambda: not any(map(self._missing, self._workers)), "writes are in force", SETTLED_S, 0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {[self._missing(each) for each in self._workers]}") from None
        told = [self._told(worker) for worker in self._workers]
        assert told[1:] == told[:-1], f"the workers disagree: {told}"

    def codes(self, begin: float, end: float) -> dict[str, int]:
        """How often each code came of requests that were answered in this time."""
        found = Counter(
            f"{'GET' if each.method == 'GET' else 'write'} {each.code or 'none'}"
            for each in self.answers
            if begin <= each.at <= end
        )
        return dict(sorted(found.items()))

    def failures(self, accept: Callable[[Answer], bool]) -> list[Answer]:
        """Answers that say that a server failed, but for those that are accepted."""
        return [each for each in self.answers if each.is_failure and not accept(each)]

    def _told(self, worker: Product) -> Any:
        told = worker.call("GET", "/connectors?expand=info&expand=status")
        names = [f"{kind}{number}" for kind in ("kept", "eleventh") for number in range(len(self._workers))]
        return {
            name: (told[name]["info"]["config"]["offset.lag.max"], told[name]["status"]["connector"]["state"])
            for name in names
            if name in told and "status" in told[name]
        }

    def _missing(self, worker: Product) -> list[str]:
        told = self._told(worker)
        found = []
        for number in range(len(self._workers)):
            value, state = told.get(f"kept{number}", (ABSENT, ABSENT))
            there = told[f"eleventh{number}"][0] if f"eleventh{number}" in told else ABSENT
            for what, has, wish in (
                ("config", value, self.values[number]),
                ("state", state, self.states[number]),
                ("eleventh", there, self.eleventh[number]),
            ):
                if has not in wish.possible:
                    found.append(f"{what} of {number} at {worker.port} is {has}, not one of {sorted(wish.possible)}")
        return found

    # The clients.

    def _value(self, value: str) -> dict[str, str]:
        return {**self._config, "offset.lag.max": value}

    def _strike(self, number: int) -> None:
        base, step = f"http://127.0.0.1:{self._workers[number].port}", 0
        with httpx.Client(base_url=base, timeout=CLIENT_S) as client:
            while not self._stop.wait(PAUSE_S):
                step += 1
                some = self._copying[step % len(self._copying)]
                self._ask(client, number, "GET", READS[step % len(READS)].format(some=some))
                match step % 5:
                    case 0:
                        self._toggle_eleventh(client, number, str(step))
                    case 1 | 3:
                        asked = self._ask(
                            client, number, "PUT", f"/connectors/kept{number}/config", self._value(str(step))
                        )
                        self.values[number].answered(str(step), acknowledged=asked)
                    case 2:
                        state, verb = (("PAUSED", "pause"), ("RUNNING", "resume"))[step // 5 % 2]
                        asked = self._ask(client, number, "PUT", f"/connectors/kept{number}/{verb}")
                        self.states[number].answered(state, acknowledged=asked)
                    case _:
                        if self.restarts and step % RESTART_EVERY == 4 + 5 * number:
                            self._ask(client, number, "POST", _restart_of(some, step))

    def _toggle_eleventh(self, client: httpx.Client, number: int, value: str) -> None:
        wish, name = self.eleventh[number], f"eleventh{number}"
        if wish.possible == {ABSENT}:
            acknowledged = self._ask(
                client, number, "POST", "/connectors", {"name": name, "config": self._value(value)}
            )
            wish.answered(value, acknowledged=acknowledged)
        else:
            code = self._code(client, number, "DELETE", f"/connectors/{name}")
            # One that had not been created is gone as well.
            wish.answered(ABSENT, acknowledged=code in (httpx.codes.NO_CONTENT, httpx.codes.NOT_FOUND))

    def _ask(self, client: httpx.Client, number: int, method: str, path: str, body: object = None) -> bool:
        return httpx.codes.is_success(self._code(client, number, method, path, body))

    def _code(self, client: httpx.Client, number: int, method: str, path: str, body: object = None) -> int:
        began, code, text = time.monotonic(), 0, ""
        try:
            answer = client.request(method, path, json=body) if body else client.request(method, path)
            code, text = answer.status_code, "" if answer.is_success else answer.text[:300]
        except httpx.HTTPError as error:
            text = repr(error)
        now = time.monotonic()
        self.answers.append(Answer(now, now - began, number, method, path, code, text))
        if not code:
            self._stop.wait(0.3)  # it has been killed
        return code


def _restart_of(name: str, step: int) -> str:
    if step // RESTART_EVERY % 2:
        return f"/connectors/{name}/tasks/0/restart"
    return f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false"
