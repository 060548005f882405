"""What the other workers of the group tell of their tasks: asked in the background, kept for a moment, unknown after it.

Every worker so answers for all tasks of the group. In the background only sums are asked for. Rows of partitions, topics and
groups are asked for when somebody looks at a connector, and for a while after that.

A request waits for other workers for WAIT_S at most, and not for one that did not answer last time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.errors import ConnectError
from mirror_connect.app.herder.interfaces import GroupMember, WorkerClient
from mirror_connect.app.herder.link_parts import ToldConnector
from mirror_connect.app.metrics.connector_figures import WorkerFigures
from mirror_connect.app.metrics.figures import UNKNOWN_AFTER_S
from mirror_connect.app.metrics.figures_lines import BadFigures, FiguresReader

log = logging.getLogger(__name__)

PATH: Final = "/admin/workers/figures"
EVERY_S: Final = 4.0
# An answer of this age is good enough for a request.
FRESH_S: Final = 1.0
WAIT_S: Final = 1.0
PATIENCE_S: Final = 3.0
# For so long the rows of a connector are asked for after somebody has looked at it.
LOOKED_AT_S: Final = 15.0
AT_ONCE: Final = 4
# 100,000 partitions or more.
LARGEST: Final = 32 << 20


@dataclass(slots=True)
class _Other:
    """Another worker. `at`: when its last answer was asked for; `rows_of`: the connectors whose rows are in it."""

    url: str
    at: float | None = None
    figures: WorkerFigures | None = None
    rows_of: frozenset[str] = frozenset()
    failed: bool = False
    asking: asyncio.Task[None] | None = None
    asked_rows: frozenset[str] = frozenset()


@dataclass(slots=True)
class FiguresElsewhere:
    """See the module. `members`: all of the group. `own_id`: this worker. `clock`: seconds, of the reports."""

    client: WorkerClient | None
    members: Callable[[], Sequence[GroupMember]]
    own_id: str
    clock: Callable[[], float]
    _others: dict[str, _Other] = field(default_factory=dict)
    _looked_at: dict[str, float] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        if self.client is not None:
            self._asking = asyncio.create_task(self._ask_on())

    def stop(self) -> None:
        """Ends it."""
        for task in (self._asking, *(each.asking for each in self._others.values())):
            if task is not None:
                task.cancel()
        self._asking = None

    # What is known.

    def known(self) -> frozenset[str]:
        """The ids of the workers that have told what they know lately."""
        return frozenset(worker for worker, each in self._others.items() if self._is_known(each))

    def worker(self, worker_id: str) -> tuple[WorkerFigures, float] | None:
        """What a worker has told lately, and how many seconds ago."""
        found = self._others.get(worker_id)
        if found is None or found.figures is None or found.at is None or not self._is_known(found):
            return None
        return found.figures, self.clock() - found.at

    def told(self, connector: str) -> list[ToldConnector]:
        """What each of them has told of a connector; its `tasks` are all that tell there."""
        now, found = self.clock(), []
        for worker, each in self._others.items():
            if each.figures is None or each.at is None or not self._is_known(each):
                continue
            figures = each.figures.connectors.get(connector)
            if figures is None:
                continue
            age = now - each.at
            tasks = frozenset(
                number for number, task in figures.tasks.items() if task.heard_ago + age < UNKNOWN_AFTER_S
            )
            rows = each.figures.rows.get(connector)
            found.append(ToldConnector(worker, each.figures.process, each.at, figures, tasks, rows))
        return found

    def _is_known(self, other: _Other) -> bool:
        return other.at is not None and self.clock() - other.at < UNKNOWN_AFTER_S

    # What is asked.

    async def refresh(self, rows_of: Collection[str] = ()) -> None:
        """Asks those whose last answer is old, or has not all of these rows. Returns after WAIT_S at the latest."""
        if self.client is None:
            return
        now = self.clock()
        self._looked_at |= dict.fromkeys(rows_of, now)
        self._match_members()
        awaited = [
            asking
            for each in self._others.values()
            if (asking := self._asked(each, frozenset(rows_of), now)) is not None and not each.failed
        ]
        if awaited:
            await asyncio.wait(awaited, timeout=WAIT_S)

    def _asked(self, other: _Other, rows_of: frozenset[str], now: float) -> asyncio.Task[None] | None:
        """What brings the answer; None if there is a good one."""
        if other.at is not None and not other.failed and now - other.at < FRESH_S and rows_of <= other.rows_of:
            return None
        running = other.asking
        if running is not None and not running.done() and rows_of <= other.asked_rows:
            return running
        wanted = rows_of | {name for name, at in self._looked_at.items() if now - at < LOOKED_AT_S}
        other.asked_rows = wanted
        other.asking = asyncio.create_task(self._ask(other, wanted, running))
        return other.asking

    def _match_members(self) -> None:
        # A node of dedicated mode without internal REST gives its name in the place of an address.
        others = [each for each in self.members() if each.worker_id != self.own_id and each.url.startswith("http")]
        present = {each.worker_id: each.url for each in others}
        for worker in [each for each in self._others if each not in present or self._others[each].url != present[each]]:
            gone = self._others.pop(worker)
            if gone.asking is not None:
                gone.asking.cancel()
        for worker, url in present.items():
            if worker not in self._others:
                self._others[worker] = _Other(url)

    async def _ask_on(self) -> None:
        while True:
            now = self.clock()
            self._looked_at = {name: at for name, at in self._looked_at.items() if now - at < LOOKED_AT_S}
            self._match_members()
            asked = [each for other in self._others.values() if (each := self._asked(other, frozenset(), now))]
            if asked:
                await asyncio.wait(asked)
            await asyncio.sleep(EVERY_S)

    async def _ask(self, other: _Other, rows_of: frozenset[str], before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        assert self.client is not None
        async with self._slots:
            at = self.clock()
            body = json.dumps({"rows": sorted(rows_of)}).encode()
            try:
                status, answer = await self.client.signed(
                    "POST", other.url, PATH, body, patience_s=PATIENCE_S, limit=LARGEST
                )
                if status != 200:
                    raise BadFigures(f"the answer is {status}")
                figures = await _read(answer)
            except (ConnectError, BadFigures) as error:
                if not other.failed:
                    log.debug("Worker %s tells no figures: %s", other.url, error)
                other.failed = True
                return
            except Exception:
                other.failed = True
                log.exception("A bug: the figures of worker %s can't be read", other.url)
                return
        other.at, other.figures, other.rows_of, other.failed = at, figures, rows_of, False


async def _read(answer: bytes) -> WorkerFigures:
    reader = FiguresReader()
    for line in answer.splitlines():
        reader.take(line)
        await asyncio.sleep(0)
    return reader.result()
