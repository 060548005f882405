"""Names that nobody knows, told with the known one that was perhaps meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

# Below that a guess confuses more than it helps.
_LIKENESS: Final = 0.8
# A guess costs some 20 ms among the two thousand names that there are.
_GUESSES: Final = 10


def unknown_names_line(unknown: Iterable[str], known: Collection[str], what: str) -> str | None:
    """One line that names what is unknown and what it resembles; None if nothing is unknown. `what`: "properties"."""
    names = sorted(unknown)
    shown = [_with_guess(name, known) for name in names[:_GUESSES]] + names[_GUESSES:]
    if not shown:
        return None
    return f"These {what} are unknown and have no effect: {', '.join(shown)}"


def _with_guess(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=_LIKENESS)
    return f"{name} (did you mean {near[0]}?)" if near else name
