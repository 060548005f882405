"""Which lives of partitions are gone through: what the source holds, and which incidents come when, all by chance."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from tests.fakes.simulated_time import run_simulated
from tests.models.life import Incident, Life, Schedule, live
from tests.models.search import SEED, search

KINDS = (
    "lose",
    "refuse",
    "deny",
    "written_and_refused",
    "one_passes",
    "late_and_lost",
    "lost_sequence",
    "refused_for_good",
    "forget",
    "slow",
    "limit",
    "lease",
    "leader",
    "truncate",
    "kill",
    "epoch",
    "finish",
    "hand_over",
    "make_again",
)
SHAPES = ("plain", "plain", "plain", "lz4", "gaps", "control", "append_time")
# `make soak` has more of them, and other ones each time.
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "100"))

# Of batches: how many records, and how many bytes a value has.
Sizes = tuple[tuple[int, ...], tuple[int, ...]]
ALL_SIZES: Final[Sizes] = ((1, 1, 1, 2, 5, 10, 30), (0, 10, 100, 400))
# None is merged with its neighbours: so several are in flight at a time.
LARGE: Final[Sizes] = ((30, 31), (600,))
# Most are merged, until there are as many as a batch takes.
SINGLE: Final[Sizes] = ((1, 1, 1, 2), (400,))
# Bytes a second. The largest batch comes through alone within request.timeout.ms, two of them don't.
THIN: Final = 750
SOMETIMES_THIN: Final = (None,) * 9 + (THIN,)


def schedules(
    kinds: tuple[str, ...] = KINDS,
    most: int = 10,
    sizes: Sizes = ALL_SIZES,
    links: tuple[int | None, ...] = SOMETIMES_THIN,
) -> st.SearchStrategy[Schedule]:
    counts, values = sizes
    shape = st.tuples(st.sampled_from(SHAPES), st.sampled_from(counts), st.sampled_from(values))
    moment = st.integers(0, 5_000).map(lambda ms: ms / 1000)
    incident = st.builds(Incident, moment, st.sampled_from(kinds), st.integers(0, 11))
    return st.builds(
        Schedule,
        st.lists(shape, min_size=4, max_size=40).map(tuple),
        st.lists(incident, max_size=most).map(tuple),
        st.booleans(),
        st.integers(0, 2**32),
        st.sampled_from(links),
    )


def lives(
    kinds: tuple[str, ...] = KINDS,
    examples: int = EXAMPLES,
    sizes: Sizes = ALL_SIZES,
    most: int = 10,
    links: tuple[int | None, ...] = SOMETIMES_THIN,
    *,
    kind: Callable[[Schedule], Life] = Life,
    number: int = SEED,
    smaller: bool = True,
) -> None:
    """Goes through so many lives of the seed `number`, and raises what the first broken one raises.

    `smaller`: see `search`.
    """

    def run(schedule: Schedule) -> None:
        run_simulated(live(schedule, kind))

    search(run, schedules(kinds, most, sizes, links), examples, number, smaller=smaller)
