"""What some lives of each model do, as one digest of each: the same in any process, whenever and however often it is done.

As a program it prints them: `python -m tests.models.traces`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Final
from unittest import mock

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests import draws
from tests.fakes.simulated import Process
from tests.fakes.simulated_time import run_simulated
from tests.models import life, remote_life, sharing_life, transaction_life
from tests.models.landing_tasks import simulated
from tests.models.life_clusters import LifeTarget
from tests.models.schedules import schedules as of_lives
from tests.models.test_fence_model import LYING, under
from tests.models.test_fence_model import Trouble as FenceTrouble
from tests.models.test_group_model import SCHEDULES_OF_MEMBERS, go_through
from tests.models.test_remote_model import TROUBLE, without_rights
from tests.models.test_sharing_model import Trouble as SharingTrouble
from tests.models.test_transaction_model import schedules as of_transactions
from tests.models.worker_schedules import in_simulated_time

SEED: Final = 20261126
FEW: Final = 3

MODELS: Final[dict[str, tuple[Callable[[Any], Any], st.SearchStrategy[Any]]]] = {
    "fence": (under(LYING), FenceTrouble().schedules(2)),
    "remote": (remote_life.live_there, TROUBLE.schedules(1)),
    "remote without rights": (without_rights, TROUBLE.schedules(1)),
    "sharing": (sharing_life.live, SharingTrouble().schedules(3)),
    "group": (go_through, SCHEDULES_OF_MEMBERS),
    "transactions": (transaction_life.live, of_transactions()),
    "partition": (lambda schedule: run_simulated(life.live(schedule)), of_lives()),
}

# Their source tasks are the product's, from the fetcher on; or they have none.
CLUSTERS_OF_THEIR_OWN: Final = {"partition", "group", "transactions", "fence"}


def drawn(model: str) -> list[Any]:
    """The first schedules of SEED."""
    found: list[Any] = []

    @seed(SEED)
    @settings(max_examples=FEW, deadline=None, database=None, derandomize=False, phases=(Phase.generate,))
    @given(MODELS[model][1])
    def note(schedule: Any) -> None:
        found.append(schedule)

    note()
    return found


def digest(model: str) -> str:
    """Of the schedules, of each request to a broker with its time, and of what comes of each life."""
    lines: list[str] = []
    call, append = Process.call, LifeTarget._append

    async def calling(self: Process, *args: Any) -> Any:
        lines.append(f"{self.name} {self.world.now} {self.time()}")
        return await call(self, *args)

    def appending(self: LifeTarget, *args: Any) -> tuple[int, int]:
        lines.append(f"{args}")
        return append(self, *args)

    for schedule in drawn(model):
        lines.append(repr(schedule))
        with (
            in_simulated_time(),
            nullcontext() if model in CLUSTERS_OF_THEIR_OWN else simulated(),
            mock.patch.object(Process, "call", calling),
            mock.patch.object(LifeTarget, "_append", appending),
            suppress(AssertionError),
        ):
            MODELS[model][0](schedule)
            lines.append("whole")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


if __name__ == "__main__":
    draws.settle()
    print(json.dumps({model: digest(model) for model in MODELS}))
