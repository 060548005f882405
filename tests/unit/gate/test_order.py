"""Which file of tests comes next: of heavy ones few at a time, and none is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests import order
from tests.order import BROWSER, MANY, NOTHING, REAL, SEVERAL, MixedFiles, next_file, weight
from tests.paths import ROOT

E2E, SHARING, MODEL, UNIT = (
    "tests/e2e/test_identity.py",
    "tests/e2e/test_sharing.py",
    "tests/models/test_fence_model.py",
    "tests/unit/verify/test_rate.py",
)


def test_the_files_that_are_named_are_there() -> None:
    assert [file for file in (*MANY, *BROWSER) if not (ROOT / file).is_file()] == []


def test_weights() -> None:
    assert [weight(file) for file in (SHARING, E2E, *BROWSER, MODEL, UNIT)] == [SEVERAL, REAL, REAL, NOTHING, NOTHING]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param([], SHARING, id="the_first"),
        pytest.param([NOTHING, REAL], SHARING, id="beside_one_with_real_parts"),
        pytest.param([NOTHING, SEVERAL], E2E, id="beside_a_heavy_one"),
        pytest.param([REAL, REAL], MODEL, id="beside_two_with_real_parts"),
        pytest.param([SEVERAL, REAL], MODEL, id="beside_a_heavy_one_and_another"),
    ],
)
def test_the_first_that_fits_comes_next(others: list[int], expected: str) -> None:
    assert next_file([SHARING, E2E, MODEL, UNIT], others) == expected


def test_where_nothing_fits_the_lightest_comes_next() -> None:
    assert next_file([SHARING, E2E], [SEVERAL, REAL]) == E2E
    assert next_file([SHARING], [SEVERAL, REAL]) == SHARING


def test_tests_are_put_in_the_order_of_their_files() -> None:
    names = [f"{file}::test_{n}" for file in (UNIT, E2E, MODEL, SHARING) for n in range(2)]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    order.pytest_collection_modifyitems(items)
    assert [each.nodeid.rpartition("_")[2] for each in items] == ["0", "1"] * 4
    assert [each.nodeid.partition("::")[0] for each in items[::2]] == [SHARING, E2E, UNIT, MODEL]


@dataclass(eq=False)
class Process:
    """One of pytest-xdist's: it begins a test when it has the one after it, or is told that there is no more."""

    gateway: SimpleNamespace
    given: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def scheduler() -> Callable[[list[str], int], tuple[MixedFiles, list[Process]]]:
    def make(collection: list[str], count: int) -> tuple[MixedFiles, list[Process]]:
        option = SimpleNamespace(loadscopereorder=False)
        config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * count)
        made = MixedFiles(config)
        processes = [Process(SimpleNamespace(id=f"gw{number}")) for number in range(count)]
        for each in processes:
            made.add_node(each)  # type: ignore[arg-type]
            made.add_node_collection(each, collection)  # type: ignore[arg-type]
        made.schedule()
        return made, processes

    return make


def test_of_three_processes_two_have_real_parts_while_there_are_others_and_one_of_them_many(
    scheduler: Callable[[list[str], int], tuple[MixedFiles, list[Process]]],
) -> None:
    files = [*MANY, *(f"tests/e2e/test_{n}.py" for n in range(20)), *(f"tests/unit/test_{n}.py" for n in range(60))]
    collection = [f"{file}::test_{number}" for file in files for number in range(1 + len(file) % 3)]
    made, processes = scheduler(collection, 3)
    ran: list[str] = []
    seen: list[list[int]] = []
    while running := [each for each in processes if len(each.given) > 1 or (each.shutting_down and each.given)]:
        for process in running:
            seen.append([weight(collection[each.given[0]].partition("::")[0]) for each in processes if each.given])
            number = process.given.pop(0)
            ran.append(collection[number])
            made.mark_test_complete(process, number)  # type: ignore[arg-type]
    assert sorted(ran) == sorted(collection)
    assert made.tests_finished
    mixed = [weights for weights in seen if NOTHING in weights]
    assert len(mixed) > len(seen) // 2
    assert max(sum(each != NOTHING for each in weights) for weights in mixed) == 2
    assert max(weights.count(SEVERAL) for weights in mixed) == 1
