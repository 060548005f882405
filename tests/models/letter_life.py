"""Lives of partitions with records that nothing can transform: they go to a dead letter topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.spark_jobs.tasks.source_assignment import SourceAssignment
from tests.models.exactly_once_life import ExactlyOnceLife
from tests.models.letter_watch import LetterWatch
from tests.models.life import Incident, Life, Schedule
from tests.models.life_clusters import LETTERS

# A value of the model is no JSON.
CONFIG: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "transforms.mask.predicate": "bad",
    "predicates": "bad",
    "predicates.bad.type": "HasHeaderKey",
    "predicates.bad.name": "bad",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.context.headers.enable": "true",
}
NOT_ENOUGH_REPLICAS: Final = 19


async def _at_once(work: Callable[..., Any], *args: Any) -> Any:
    """No thread knows simulated time."""
    return work(*args)


def _soon(_: SourceAssignment, work: Callable[[], Any]) -> asyncio.Future[Any]:
    async def done() -> Any:
        await asyncio.sleep(0.001)
        return work()

    return asyncio.ensure_future(done())


class LetterLife(Life):
    """At least once: a letter may come again."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.letters = self.target.letters = self.source.letters = LetterWatch(self.watches)
        self.target_broker.topic(LETTERS)

    async def run(self) -> None:
        with (
            mock.patch.object(asyncio, "to_thread", _at_once),
            mock.patch.object(SourceAssignment, "_in_thread", _soon),
        ):
            await super().run()

    def changed(self, spec: TaskSpec) -> TaskSpec:
        spec = super().changed(spec)
        return replace(spec, config={**spec.config, **CONFIG})

    def _committed(self) -> bool:
        return super()._committed() and self.letters.complete

    def _heal(self) -> None:
        super()._heal()
        self.target.refuses_letters = 0

    async def _happen(self, incident: Incident) -> None:
        if incident.kind != "refuse_letters":
            await super()._happen(incident)
            return
        await asyncio.sleep(incident.at)
        self.target.refuses_letters = NOT_ENOUGH_REPLICAS
        await asyncio.sleep((0.3, 3.0, 15.0)[incident.number % 3])
        self.target.refuses_letters = 0


class ExactlyOnceLetterLife(LetterLife, ExactlyOnceLife):
    """Each letter once, in the transaction of the position that passes it."""
