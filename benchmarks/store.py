"""The raw figures of the last full run of each part: benchmarks/results.json, from which RESULTS.md and the picture come."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
RAW: Final = HERE / "results.json"
REPORT: Final = HERE / "RESULTS.md"
PICTURE: Final = HERE / "results.svg"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one run. `date`: UTC, `command`: what was typed, `figures`: as the part's `measure` returns them.

    `load_before`: processes that wanted a core in the minute before; None: unknown. Others' work spoils times.
    `dirty`: files differed from the commit, before the part was measured or after it. `how`: heading in the report → how it
    was measured, as the code told then.
    """

    date: str
    command: str
    commit: str
    machine: dict[str, str]
    figures: Any
    load_before: float | None = None
    dirty: bool = False
    how: dict[str, str] = field(default_factory=dict)


def load(path: Path = RAW) -> dict[str, Part]:
    """The parts by name; empty if nothing was measured yet."""
    if not path.exists():
        return {}
    return {name: _part(stored) for name, stored in json.loads(path.read_text()).items()}


def save(parts: dict[str, Part], path: Path = RAW) -> None:
    """Writes them all."""
    path.write_text(json.dumps({name: asdict(part) for name, part in parts.items()}, indent=1) + "\n")


def _part(stored: dict[str, Any]) -> Part:
    # Parts of before `dirty` was a member have it as git describes it, behind the commit.
    commit = stored["commit"]
    return Part(
        **stored | {"commit": commit.removesuffix("-dirty"), "dirty": stored.get("dirty", commit.endswith("-dirty"))}
    )
