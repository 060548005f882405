"""What `python -m benchmarks` measures at all, and what it writes down of the tree."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as program
from benchmarks import latency
from benchmarks.store import Part, load, save

DELAY = {
    "side": "ours",
    "rate": 100,
    "sent": 10,
    "received": 10,
    "floor_p50": 1.0,
    "floor_p99": 1.0,
    "p50": 2.0,
    "p99": 2.0,
    "over_p50": 1.0,
    "over_p99": 1.0,
    "cpu_percent": 5.0,
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own in place of this one, with nothing measured yet; measuring gives `DELAY`."""
    (tmp_path / "benchmarks").mkdir()
    for command in (
        ["init", "--quiet"],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=60)
    raw = tmp_path / "benchmarks" / "results.json"
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "REPORT", tmp_path / "benchmarks" / "RESULTS.md")
    monkeypatch.setattr(program, "load", lambda: load(raw))
    monkeypatch.setattr(program, "save", lambda parts: save(parts, raw))
    monkeypatch.setattr(program, "describe", lambda: {"Processor": "2 cores"})
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(latency, "measure", lambda *_: [dict(DELAY)])
    return tmp_path


def measured(repository: Path) -> dict[str, Part]:
    return load(repository / "benchmarks" / "results.json")


def test_a_clean_tree_is_measured_and_not_marked(repository: Path) -> None:
    assert program.main(["latency"]) == 0
    assert [part.dirty for part in measured(repository).values()] == [False]


def test_a_second_part_is_measured_after_the_first_has_written_its_results(repository: Path) -> None:
    assert [program.main(["latency"]) for _ in range(2)] == [0, 0]
    assert [part.dirty for part in measured(repository).values()] == [False]


def test_what_is_measured_before_an_end_by_ctrl_c_is_written(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> list[dict[str, Any]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(program.takeover, "measure", stopped)
    assert program.main(["latency", "takeover"]) == 130
    assert list(measured(repository)) == ["latency"]
    assert "is written" in capsys.readouterr().err


def test_a_dirty_tree_is_refused_and_nothing_is_written(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "new.py").write_text("pass")
    monkeypatch.setattr(latency, "measure", lambda *_: pytest.fail("it was measured"))
    assert program.main(["latency"]) == 2
    assert "in new.py: commit or stash" in capsys.readouterr().err
    assert measured(repository) == {}


def test_a_dirty_tree_is_measured_when_asked_for_and_marked(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "new.py").write_text("pass")
    assert program.main(["latency", "--dirty"]) == 0
    assert [part.dirty for part in measured(repository).values()] == [True]
    assert "**dirty tree**" in (repository / "benchmarks" / "RESULTS.md").read_text()
    assert "Not to be quoted: latency" in capsys.readouterr().out


def test_a_file_that_changes_while_it_is_measured_marks_the_result(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited(*_: object) -> list[dict[str, Any]]:
        (repository / "new.py").write_text("pass")
        return [dict(DELAY)]

    monkeypatch.setattr(latency, "measure", edited)
    program.main(["latency"])
    assert [part.dirty for part in measured(repository).values()] == [True]


def test_a_quick_look_at_a_dirty_tree_writes_nothing(repository: Path) -> None:
    (repository / "new.py").write_text("pass")
    assert program.main(["latency", "--quick"]) == 0
    assert measured(repository) == {}


def test_what_is_stored_is_rendered_again_without_measuring(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program.main(["latency"])
    before = measured(repository)
    monkeypatch.setattr(latency, "measure", lambda *_: pytest.fail("it was measured"))
    for number in range(51):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", *who, "commit", "--quiet", "--allow-empty", "-m", str(number)]
        subprocess.run(command, cwd=repository, check=True, timeout=60)
    assert program.main(["--render"]) == 0
    assert measured(repository) == before
    assert "**51 commits ago**" in (repository / "benchmarks" / "RESULTS.md").read_text()
    assert "51 commits ago" in capsys.readouterr().out
