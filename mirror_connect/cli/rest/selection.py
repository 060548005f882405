"""Which connectors and links the arguments mean: names, or patterns as a shell has them for files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

from mirror_connect.cli.rest.failures import UnknownName, WrongUsage
from mirror_connect.cli.rest.figures import plain

_PATTERN: Final = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Whether it stands for several names."""
    return not _PATTERN.isdisjoint(name)


def chosen_names(asked: Sequence[str], known: Iterable[str], url: str) -> list[str]:
    """The connectors that are meant, each once. UnknownName if a name or pattern means none."""
    listed = sorted(known)
    found: dict[str, None] = {}
    for each in asked:
        # A name may have a bracket in it.
        matching = (
            [each] if each in listed else [name for name in listed if is_pattern(each) and fnmatchcase(name, each)]
        )
        if not matching:
            raise UnknownName(
                f"{url} has no connector {each}{_advice(each, listed, 'mirror-connect status lists them')}"
            )
        found.update(dict.fromkeys(matching))
    return list(found)


def chosen_links(asked: str | None, links: Sequence[Mapping[str, Any]], url: str) -> list[Mapping[str, Any]]:
    """The links that are meant: all without a name. UnknownName if there is none of this name or pattern."""
    if asked is None:
        return list(links)
    exact = [each for each in links if each["name"] == asked]
    found = exact or [each for each in links if is_pattern(asked) and fnmatchcase(str(each["name"]), asked)]
    if not found:
        names = [str(each["name"]) for each in links]
        # A shell took `->B` of `A->B` for the name of a file.
        quoted = next((f"; quote it: '{name}'" for name in names if asked == f"{name.partition('->')[0]}-"), None)
        raise UnknownName(
            f"{url} has no link {asked}{quoted or _advice(asked, names, 'mirror-connect links lists them')}"
        )
    return found


def confirm(question: str, names: Sequence[str], *, yes: bool, ask: Callable[[str], str] = input) -> bool:
    """Whether the user wants it. WrongUsage if nobody can be asked and `yes` was not given."""
    if yes:
        return True
    listed = plain(", ".join(names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    if not sys.stdin.isatty():
        raise WrongUsage(f"{question} {listed}: there is no terminal to ask; --yes does it without asking")
    print(f"{question} {listed}? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return ask("").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _advice(asked: str, known: Sequence[str], otherwise: str) -> str:
    near = get_close_matches(asked, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; {otherwise}"
