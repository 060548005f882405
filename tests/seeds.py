"""The one number that everything by chance in these tests follows from: TESTS_SEED, or one made up and printed.

`TESTS_SEED=7 make test` does again what a run that printed 7 has done, as far as processes and brokers let it.
"""

from __future__ import annotations

import os
import random
from typing import Any, Final

import pytest

VARIABLE: Final = "TESTS_SEED"


def seed() -> int:
    """The seed of this run. One that is made up here is set in the environment: processes started from now on have it."""
    return int(os.environ.setdefault(VARIABLE, str(random.SystemRandom().randrange(1 << 32))))


def chance(name: str) -> random.Random:
    """A source of chance for whoever has this name, the same whichever tests run beside it."""
    return random.Random(f"{seed()} {name}")


def numbers(few: int, all_of_them: int) -> list[Any]:
    """Parameters 0, 1, 2 …: the first few for `make test`, the others for `make soak`."""
    return [*range(few), *(pytest.param(number, marks=pytest.mark.long) for number in range(few, all_of_them))]
