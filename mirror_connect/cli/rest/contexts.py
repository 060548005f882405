"""Contexts: names for workers, in a file as kcctl has one.

Ours is $XDG_CONFIG_HOME/mirror-connect/contexts.json. Contexts of ~/.kcctl are read as well, and never written. Both files
have one form: `currentContext`, and beside it a member for each context with `cluster` (a URL), `username` and `password`.
Ours may also have `cacert`, `cert` and `key`. No password is ever written here; one that the user wrote is used.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mirror_connect.cli.rest.failures import WrongUsage

DEFAULT_WORKER: Final = "http://localhost:8083"
CURRENT: Final = "currentContext"
_TEXTS: Final = ("username", "password", "cacert", "cert", "key")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a worker is and how to log in. `file`: where the context is written; None for the default."""

    name: str
    cluster: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    cacert: str | None = None
    cert: str | None = None
    key: str | None = None
    file: Path | None = None


DEFAULT: Final = Context("", DEFAULT_WORKER)


def own_file() -> Path:
    """The file that `mirror-connect config` writes."""
    given = os.environ.get("XDG_CONFIG_HOME")
    return (Path(given) if given else Path.home() / ".config") / "mirror-connect" / "contexts.json"


def kcctl_file() -> Path:
    """kcctl's file."""
    return Path.home() / ".kcctl"


class Contexts:
    """The contexts of both files. Of two with the same name, ours counts. WrongUsage for an unreadable file."""

    def __init__(self) -> None:
        self._own = _content(own_file())
        kcctl = _content(kcctl_file())
        self._all = {**_contexts(kcctl, kcctl_file()), **_contexts(self._own, own_file())}
        current = [each.get(CURRENT) for each in (self._own, kcctl)]
        self._current = next((name for name in current if isinstance(name, str) and name in self._all), None)

    @property
    def all(self) -> Mapping[str, Context]:
        """By name."""
        return self._all

    @property
    def current(self) -> Context:
        """The one in use; without one the default: a worker on this machine."""
        return DEFAULT if self._current is None else self._all[self._current]

    def named(self, name: str) -> Context:
        """WrongUsage if there is none."""
        if name not in self._all:
            known = f"there are {', '.join(self._all)}" if self._all else "mirror-connect config set-context makes one"
            raise WrongUsage(f"there is no context {name}; {known}")
        return self._all[name]

    def add(self, name: str, members: Mapping[str, str]) -> bool:
        """Adds one to our file, or changes it. Whether it is the current one: the first one is."""
        if name == CURRENT or not name:
            raise WrongUsage(f"a context can't have the name {name!r}")
        before = self._own.get(name)
        # A password, or whatever else the user wrote into the file, stays.
        self._own[name] = {**(before if isinstance(before, dict) else {}), **members}
        if self._current is None:
            self._own[CURRENT] = self._current = name
        self._write()
        return self._current == name

    def use(self, name: str) -> None:
        """Makes it the current one. WrongUsage if there is none of this name."""
        self.named(name)
        self._own[CURRENT] = name
        self._write()

    def remove(self, name: str) -> None:
        """Removes it from our file. WrongUsage if it is not in there."""
        if self.named(name).file != own_file():
            raise WrongUsage(f"the context {name} is in {kcctl_file()}: kcctl config remove-context removes it there")
        del self._own[name]
        if self._own.get(CURRENT) == name:
            del self._own[CURRENT]
        self._write()

    def _write(self) -> None:
        path = own_file()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp's files are for this user alone: the user may have written a password into the file.
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(self._own, file, indent=2, ensure_ascii=False)
                file.write("\n")
            os.replace(name, path)
        except OSError as error:
            raise WrongUsage(f"{path} can't be written: {error.strerror or error}") from None


def _content(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise WrongUsage(f"{path} can't be read: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        # Its lines may hold passwords: only the position is shown.
        raise WrongUsage(f"{path} is not JSON at line {error.lineno}: mend or remove it") from None
    except (ValueError, RecursionError):
        raise WrongUsage(f"{path} is not JSON: mend or remove it") from None
    if not isinstance(found, dict):
        raise WrongUsage(f"{path} must hold a JSON object: mend or remove it")
    return found


def _contexts(content: Mapping[str, Any], path: Path) -> dict[str, Context]:
    found = {}
    for name, members in content.items():
        if isinstance(members, dict) and isinstance(members.get("cluster"), str):
            texts = {key: members[key] for key in _TEXTS if isinstance(members.get(key), str) and members[key]}
            found[name] = Context(name, members["cluster"], file=path, **texts)
    return found
