"""Which failures of the suite are tried again."""

from __future__ import annotations

import pytest

from tests.run import MOST, deserve_another_try


@pytest.mark.parametrize("folder", ["contract", "e2e", "integration", "spark"])
def test_a_failure_between_real_brokers_is_tried_again(folder: str) -> None:
    assert deserve_another_try([f"tests/{folder}/test_it.py::test_it"])


def test_a_failure_of_pure_logic_is_not() -> None:
    assert not deserve_another_try(["tests/unit/test_it.py::test_it"])


def test_one_failure_of_pure_logic_among_others_ends_it() -> None:
    assert not deserve_another_try(["tests/e2e/test_it.py::test_it", "tests/unit/test_it.py::test_it"])


def test_many_failures_are_no_accident() -> None:
    assert not deserve_another_try([f"tests/e2e/test_it.py::test_it[{number}]" for number in range(MOST + 1)])
