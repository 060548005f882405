"""Two checkouts compared: the ratio is that of each round, in which both copied at the same time, not of two means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import against, startup, throughput
from benchmarks.sides import BEFORE, OURS, Product, open_side
from deploy.local import LocalCluster


@pytest.mark.parametrize("in_turns", [False, True])
def test_the_ratio_is_that_of_each_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, in_turns: bool
) -> None:
    asked: list[tuple[Any, ...]] = []

    def measured(*arguments: Any, at_once: bool) -> list[dict[str, Any]]:
        asked.append((*arguments, at_once))
        # The machine was half as fast in the second round.
        return [{"by_round": [100.0, 50.0, 100.0]}, {"by_round": [110.0, 55.0, 90.0]}]

    monkeypatch.setattr(throughput, "measure", measured)
    assert against.main([str(tmp_path), "--profile", "1k", *(["--in-turns"] if in_turns else [])]) == 0
    shown = capsys.readouterr().out
    assert "1.100" in shown
    assert "0.900 to 1.100" in shown
    (_, _, _, *how), *more = asked
    assert (how, more) == ([(BEFORE, OURS), tmp_path, not in_turns], [])


def test_first_records_after_a_put_are_compared_by_their_medians(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    times = {BEFORE: [1.0, 0.8, 5.0], OURS: [1.2, 1.1, 0.9]}
    monkeypatch.setattr(startup, "puts", lambda rounds, sides, other: {name: times[name] for name in sides})
    assert against.main([str(tmp_path), "--put"]) == 0
    shown = capsys.readouterr().out
    assert "Here / there: 1.100" in shown
    assert "0.80 to 5.00" in shown


def test_the_other_checkout_is_started_by_its_own_script(tmp_path: Path) -> None:
    side = open_side(BEFORE, LocalCluster("unstarted"), other=tmp_path)
    try:
        assert isinstance(side, Product)
        with pytest.raises(FileNotFoundError, match=str(tmp_path / "bin")):
            side.start()
    finally:
        side.close()
