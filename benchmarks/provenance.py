"""Of which commit a figure is: what git says of the tree that is measured, and how many commits ago another one was."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
# Older figures describe another product.
OLD_COMMITS: Final = 50
# What a run writes itself; it is no part of what is measured.
WRITTEN: Final = ("benchmarks/results.json", "benchmarks/RESULTS.md", "benchmarks/results.svg")
_PATIENCE_S: Final = 20


class DirtyTreeError(RuntimeError):
    """Files differ from the commit, so figures would be of no commit."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A working tree: its commit, shortened, or `UNKNOWN` where git knows of none; files that differ from it or are new."""

    commit: str
    changed: tuple[str, ...] = ()

    @property
    def dirty(self) -> bool:
        """Whether the commit does not tell what is measured."""
        return bool(self.changed)


@dataclass(frozen=True, slots=True)
class History:
    """How many commits lie between older ones and `head`; a commit that is not in it is not among head's ancestors."""

    head: str = UNKNOWN
    ages: Mapping[str, int] = field(default_factory=dict)


def tree(root: Path) -> Tree:
    """What git says of the tree in `root`; ignored files and those of `WRITTEN` don't count."""
    commit = _git(root, "rev-parse", "--short=7", "HEAD")
    # -z: names as they are, an entry is `XY name`; a renamed file's former name follows as an entry of its own.
    said = _git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    if commit is None or said is None:
        return Tree(UNKNOWN)
    changed = (entry[3:] for entry in said.split("\0") if entry)
    return Tree(commit, tuple(sorted(name for name in changed if name not in WRITTEN)))


def refuse_dirty(found: Tree) -> None:
    """DirtyTreeError if the tree is dirty: one line that names a file and says what to do."""
    if found.dirty:
        more = f" and {len(found.changed) - 1} more" if len(found.changed) > 1 else ""
        raise DirtyTreeError(
            f"The tree differs from commit {found.commit} in {found.changed[0]}{more}: commit or stash that, or say"
            " --dirty to measure all the same and have the result marked"
        )


def history(root: Path, commits: Iterable[str]) -> History:
    """The ages of those commits that are HEAD or an ancestor of it."""
    head = _git(root, "rev-parse", "--short=7", "HEAD")
    if head is None:
        return History()
    ages = {}
    for commit in sorted(set(commits)):
        if commit != UNKNOWN and _git(root, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
            between = _git(root, "rev-list", "--count", f"{commit}..HEAD")
            if between is not None:
                ages[commit] = int(between)
    return History(head, ages)


def _git(root: Path, *arguments: str) -> str | None:
    """What it prints; None if it fails or is not there."""
    try:
        said = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip("\n")
