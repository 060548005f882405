"""Wording that many lines share: numbers with their noun, and unknown names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

# Below this likeness a guess confuses more than it helps.
_LIKENESS: Final = 0.8
# A guess among two thousand names costs about 20 ms.
_GUESSES: Final = 10
# Names of earlier releases, which Kafka 4 ignores, and what replaced them.
_FORMER: Final[Mapping[str, str]] = {
    "topics.whitelist": "topics",
    "topics.blacklist": "topics.exclude",
    "groups.whitelist": "groups",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "rest.host.name": "listeners",
    "rest.port": "listeners",
}
# Of transformations: by the last part of the name.
_FORMER_LAST: Final[Mapping[str, str]] = {"blacklist": "exclude", "whitelist": "include"}


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`: for nouns whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def unknown_names_line(unknown: Iterable[str], known: Collection[str], what: str) -> str | None:
    """One line with the unknown names and what they resemble; None if all are known. `what`: such as "properties"."""
    names = sorted(unknown)
    shown = [_with_guess(name, known) for name in names[:_GUESSES]] + names[_GUESSES:]
    if not shown:
        return None
    return f"These {what} are unknown and have no effect: {', '.join(shown)}"


def successor(name: str, known: Collection[str]) -> str | None:
    """The known name that replaced one of an earlier release of Kafka; None if the name is none."""
    prefix, dot, last = name.rpartition(".")
    replaced_by = _FORMER.get(name) or f"{prefix}{dot}{_FORMER_LAST.get(last, last)}"
    return replaced_by if replaced_by in known and replaced_by != name else None


def likely_name(name: str, known: Collection[str]) -> str | None:
    """The known name that an unknown one resembles most, also one in other case; None if none is near."""
    near = get_close_matches(name, known, n=1, cutoff=_LIKENESS)
    return near[0] if near else next((each for each in known if each.lower() == name.lower()), None)


def _with_guess(name: str, known: Collection[str]) -> str:
    if (replaced_by := successor(name, known)) is not None:
        return f"{name} ({replaced_by} replaced it)"
    near = likely_name(name, known)
    return name if near is None else f"{name} (did you mean {near}?)"
