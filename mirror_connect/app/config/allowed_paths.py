"""Paths whose files may be read, as Kafka's `allowed.paths` has them: those of config providers, and those of lookups."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirror_connect.connectors.config.values import LIST, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.lookups import (
    ALLOWED_PATHS,
    LOOKUP,
    Format,
    WrongLookupError,
    format_of,
    lookups_of,
)


def existing_paths(name: str, entries: Iterable[str]) -> tuple[str, ...]:
    """The entries of a setting, with `..` resolved. ConfigError unless each is absolute and exists, as in Kafka."""
    found = []
    for entry in entries:
        if not Path(entry).is_absolute():
            raise ConfigError(name, entry, f"Path {entry} is not absolute")
        # os.path, not Path, whose methods raise for a folder that this user may not look into.
        if not os.path.exists(entry):
            raise ConfigError(name, entry, f"Path {entry} does not exist")
        found.append(os.path.normpath(entry))
    return tuple(found)


def permitted_path(path: str, allowed: Collection[str]) -> str | None:
    """The path to open: the one in the config with `..` resolved, as in Kafka. None if it is in none of the allowed ones.

    Nothing is asked of the file system: where links lead counts when the file is open (bounded_file.py).
    """
    normal = os.path.normpath(path)
    return normal if any(Path(normal).is_relative_to(each) for each in allowed) else None


@dataclass(frozen=True, slots=True)
class LookupPaths:
    """Where a worker may read files of lookups. `within`: absolute paths of directories or files; none by default."""

    within: tuple[str, ...] = ()

    @staticmethod
    def of(properties: Mapping[str, str]) -> LookupPaths:
        """As a worker's properties have them. Whether they exist is not looked at: they may be of another machine."""
        entries = parse(properties.get(ALLOWED_PATHS, ""), LIST)[1] or ()
        return LookupPaths(tuple(map(os.path.normpath, entries)))

    def permitted(self, path: str) -> str | None:
        """See `permitted_path`."""
        return permitted_path(path, self.within)

    def refusal(self) -> str:
        """What to say of a path that is not permitted. Nobody learns by it which files exist."""
        given = f"has {', '.join(self.within)}" if self.within else "is not set"
        return f"the worker's file must allow it: {ALLOWED_PATHS} {given}. Add the file's directory there"


def files_of_lookups(config: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """The setting and the path of each lookup that is a file. What is wrong with others is told elsewhere."""
    for lookup in lookups_of(config):
        try:
            if format_of(lookup.location) is not Format.TOPIC:
                yield LOOKUP + lookup.name, lookup.location
        except WrongLookupError:
            continue


NO_FILES: Final = LookupPaths()
