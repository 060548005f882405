"""Of which commit a figure is: asked of a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.provenance import UNKNOWN, DirtyTreeError, History, Tree, history, refuse_dirty, tree


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    said = subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=60)
    return said.stdout.strip()


def commit(root: Path, text: str) -> str:
    (root / "file.py").write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", text)
    return git(root, "rev-parse", "--short=7", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "results.json").write_text("{}")
    commit(tmp_path, "first")
    return tmp_path


def test_a_tree_as_it_was_committed_is_measured(repository: Path) -> None:
    found = tree(repository)
    refuse_dirty(found)
    assert found == Tree(git(repository, "rev-parse", "--short=7", "HEAD"))


@pytest.mark.parametrize("name", ["file.py", "new.py", "benchmarks/new name.py"])
def test_a_tree_with_another_file_is_refused_by_its_name(repository: Path, name: str) -> None:
    (repository / name).write_text("something else")
    with pytest.raises(DirtyTreeError, match=f"in {name}: .*--dirty"):
        refuse_dirty(tree(repository))


def test_what_is_staged_is_not_committed(repository: Path) -> None:
    (repository / "file.py").write_text("staged")
    git(repository, "add", "--all")
    assert tree(repository).changed == ("file.py",)


def test_a_renamed_file_is_named_twice(repository: Path) -> None:
    git(repository, "mv", "file.py", "moved.py")
    assert tree(repository).changed == ("file.py", "moved.py")


def test_a_deleted_file_makes_a_tree_dirty(repository: Path) -> None:
    (repository / "file.py").unlink()
    assert tree(repository).dirty


def test_what_an_earlier_part_has_written_does_not_stop_the_next(repository: Path) -> None:
    (repository / "benchmarks" / "results.json").write_text('{"memory": {}}')
    (repository / "benchmarks" / "RESULTS.md").write_text("# Results")
    (repository / "benchmarks" / "results.svg").write_text("<svg/>")
    (repository / "worker.log").write_text("ignored")
    assert not tree(repository).dirty


def test_a_directory_without_git_has_no_commit_and_is_not_refused(tmp_path: Path) -> None:
    found = tree(tmp_path)
    refuse_dirty(found)
    assert found == Tree(UNKNOWN)


def test_the_age_of_a_commit_is_the_number_of_commits_since(repository: Path) -> None:
    old = commit(repository, "second")
    commits = [commit(repository, f"later {number}") for number in range(3)]
    assert history(repository, [old, commits[-1]]) == History(commits[-1], {old: 3, commits[-1]: 0})


def test_a_commit_of_another_history_has_no_age(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "aside")
    aside = commit(repository, "aside")
    git(repository, "checkout", "--quiet", "-")
    here = commit(repository, "here")
    assert history(repository, [aside, "0123456", UNKNOWN]) == History(here, {})


def test_without_git_nothing_has_an_age(tmp_path: Path) -> None:
    assert history(tmp_path, ["0123456"]) == History()
