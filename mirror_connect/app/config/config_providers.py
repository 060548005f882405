"""Config providers: `${provider:path:key}` in a config is replaced by what a file, directory or the environment holds.

Rules and names are Kafka's (ConfigTransformer, AbstractConfig and the three providers of kafka-clients 4.3.1): a reference
to an unknown provider stays as text, and so does one whose key isn't there; resolved text isn't looked through again.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mirror_connect.app.config.properties import UnreadableFile, properties_of
from mirror_connect.connectors.config.bounded_file import CantRead, OutsideError, read_file
from mirror_connect.connectors.config.config_table import RefusedConfig
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter
from mirror_connect.connectors.secrets import secrets_of

log = logging.getLogger(__name__)

# What other things in braces don't begin with: `${1:-x}`.
_ALIAS: Final = re.compile(r"[A-Za-z_][\w.-]*")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    """Where values come from."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The values of those keys that there are; ConfigError if the place can't be read."""


class _AllowedPaths:
    """`allowed.paths`: where files may lie. Without it, anywhere."""

    def __init__(self, name: str, value: str | None) -> None:
        self._allowed: list[str] | None = None
        if value is None or not value.strip():
            return
        self._allowed = []
        for entry in re.split(r"\s*,\s*", value.strip()):
            if not Path(entry).is_absolute():
                raise ConfigError(name, entry, f"Path {entry} is not absolute")
            if not Path(entry).exists():
                raise ConfigError(name, entry, f"Path {entry} does not exist")
            self._allowed.append(os.path.normpath(entry))

    def permitted(self, path: str) -> str | None:
        """The path to open, as Kafka makes it of one that a config names: with `..` worked out. None: it may not be read."""
        if self._allowed is None:
            return path
        normal = os.path.normpath(path)
        if os.path.isabs(normal) and any(Path(normal).is_relative_to(allowed) for allowed in self._allowed):
            return normal
        self._refuse(path)
        return None

    def read(self, path: str, what: str) -> bytes | None:
        """A permitted path's file. None if links lead it out of what is allowed, which Kafka would follow.

        UnreadableFile names `what` and the path.
        """
        try:
            return read_file(path, self._allowed)
        except OutsideError:
            self._refuse(path)
            return None
        except CantRead as error:
            raise UnreadableFile(what, path, str(error)) from None

    @staticmethod
    def _refuse(path: str) -> None:
        log.error("The path %s is not under the provider's allowed.paths; references to it stay as they are", path)


class FileProvider:
    """A properties file per path, read anew each time: a changed secret counts from the next start of a connector."""

    def __init__(self, alias: str, parameters: Mapping[str, str]) -> None:
        self._allowed = _AllowedPaths(f"config.providers.{alias}.param.allowed.paths", parameters.get("allowed.paths"))

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Values of the properties file at `path`."""
        what = "properties from file"
        file = self._allowed.permitted(path) if path else None
        content = None if file is None else self._allowed.read(file, what)
        if content is None:
            return {}
        found = properties_of(content, path, what=what, encoding="utf-8")
        return {key: found[key] for key in keys if key in found}


class DirectoryProvider:
    """A file per key, its whole text the value, as secrets are mounted into containers."""

    def __init__(self, alias: str, parameters: Mapping[str, str]) -> None:
        self._allowed = _AllowedPaths(f"config.providers.{alias}.param.allowed.paths", parameters.get("allowed.paths"))

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Texts of the files in `path` that are named as the keys."""
        folder = self._allowed.permitted(path) if path else None
        if folder is None:
            return {}
        if not Path(folder).is_dir():
            log.warning("The path %s is not a directory; references to it stay as they are", path)
            return {}
        found: dict[str, str] = {}
        for key in keys:
            file = Path(folder) / key
            # Only a plain name: Kafka lists the directory, so `../x` never names a file of it.
            if key in ("", ".", "..") or "/" in key or not file.is_file():
                continue
            content = self._allowed.read(str(file), "file")
            if content is None:
                continue
            try:
                found[key] = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UnreadableFile("file", file, f"it isn't UTF-8 at byte {error.start}") from None
        return found


class EnvironmentProvider:
    """Environment variables whose whole name matches `allowlist.pattern` (all, without it)."""

    def __init__(self, alias: str, parameters: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        pattern = parameters.get("allowlist.pattern")
        allowed = NameFilter.compile(
            f"config.providers.{alias}.param.allowlist.pattern", [".*" if pattern is None else pattern]
        )
        everything = os.environ if environment is None else environment
        allowed.judge(everything.keys())
        self._variables = {name: value for name, value in everything.items() if allowed.matches(name)}

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Values of the variables; a path makes no sense here."""
        if path:
            raise ConfigError("EnvVarConfigProvider", path, f"Path is not supported for EnvVarConfigProvider: {path}")
        return {key: self._variables[key] for key in keys if key in self._variables}


_PROVIDERS: Final[Mapping[str, type[FileProvider | DirectoryProvider | EnvironmentProvider]]] = {
    f"{_PACKAGE}FileConfigProvider": FileProvider,
    f"{_PACKAGE}DirectoryConfigProvider": DirectoryProvider,
    f"{_PACKAGE}EnvVarConfigProvider": EnvironmentProvider,
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config with its references replaced, and as it was written: error texts and REST answers quote the latter."""

    values: dict[str, str] = field(repr=False)
    as_written: dict[str, str] = field(repr=False)

    def referenced(self, name: str) -> bool:
        """Whether this value, or a part of it, came from a provider."""
        return self.values.get(name) != self.as_written.get(name)

    def secrets(self) -> frozenset[str]:
        """Texts that must not be seen, for `redact` and RedactingFilter.learn."""
        return secrets_of(self.values)


class _Reference(NamedTuple):
    """`${provider:path:key}` in a text; without a path between, it is empty."""

    begin: int
    end: int
    provider: str
    path: str
    key: str


def _references(text: str) -> Iterator[_Reference]:
    r"""What Kafka's `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}` finds, in one pass: that one takes the cube of the time."""
    begin = text.find("${")
    while begin >= 0:
        end = text.find("}", begin)
        if end < 0:
            return
        provider, colon, rest = text[begin + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield _Reference(begin, end + 1, provider, path if second else "", key if second else rest)
        begin = text.find("${", end + 1)


class Resolver:
    """Replaces references. Made once from the worker's properties; safe to use from several threads."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)
        self._said: set[str] = set()
        self._saying = threading.Lock()
        self._learn: Callable[[frozenset[str], str], None] = lambda *_: None

    def tell(self, learn: Callable[[frozenset[str], str], None]) -> None:
        """`learn` hears the secrets of every config that is resolved, and its name, in the thread that resolves it."""
        self._learn = learn

    @classmethod
    def of(cls, properties: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Resolver:
        """The providers that `config.providers` names. ConfigError for an unknown class or a wrong parameter."""
        providers: dict[str, Provider] = {}
        for alias in re.split(r"\s*,\s*", properties.get("config.providers", "").strip()):
            if not alias:
                continue
            setting = f"config.providers.{alias}.class"
            class_name = properties.get(setting, "").strip()
            if not class_name:
                log.warning("config.providers names %s, but %s isn't set: ${%s:…} stays as text", alias, setting, alias)
                continue
            provider = _PROVIDERS.get(class_name)
            if provider is None:
                raise ConfigError(
                    setting, class_name, f"Class {class_name} could not be found. There are: {', '.join(_PROVIDERS)}"
                )
            prefix = f"config.providers.{alias}.param."
            parameters = {
                name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)
            }
            if provider is EnvironmentProvider:
                providers[alias] = EnvironmentProvider(alias, parameters, environment)
            else:
                providers[alias] = provider(alias, parameters)
        return cls(providers)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config with references replaced. ConfigError names a file that can't be read, and what refers to it."""
        resolved = self.look(config)
        self._learn(secrets_of(resolved), resolved.get("name", ""))
        return resolved

    def look(self, config: Mapping[str, str]) -> dict[str, str]:
        """The same without telling anyone the secrets: of a config that may be anybody's idea, see `Validation`."""
        wanted: dict[tuple[str, str], set[str]] = {}
        for value in config.values():
            for reference in _references(value):
                if reference.provider in self._providers:
                    wanted.setdefault((reference.provider, reference.path), set()).add(reference.key)
        # One look at each place, so that all values of a file are of the same moment.
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for place, keys in wanted.items():
            try:
                found[place] = self._providers[place[0]].get(place[1], keys)
            except ConfigError as error:
                names = [name for name, value in config.items() if place in {each[2:4] for each in _references(value)}]
                verb = "refers" if len(names) == 1 else "refer"
                raise RefusedConfig(names[0], f"{error} ({', '.join(names)} {verb} to it)") from None

        resolved: dict[str, str] = {}
        unresolved: list[tuple[str, _Reference, str]] = []
        for name, value in config.items():
            pieces, at = [], 0
            for reference in _references(value):
                written = value[reference.begin : reference.end]
                given = found.get((reference.provider, reference.path), {}).get(reference.key, written)
                pieces += [value[at : reference.begin], given]
                at = reference.end
                if given == written and _ALIAS.fullmatch(reference.provider):
                    unresolved.append((name, reference, written))
            resolved[name] = "".join([*pieces, value[at:]])
        for name, reference, written in unresolved:
            self._say_unresolved(name, reference.provider, written)
        return resolved

    def _say_unresolved(self, name: str, provider: str, written: str) -> None:
        """As in Connect it stays text: a password that is the letters `${fil:…}` is refused later, far from its cause."""
        if provider in self._providers:
            line = f"{name}: the reference {written} leads to nothing and stays as text"
        else:
            # No more of it is shown: it may be a secret that only looks like a reference.
            there = ", ".join(sorted(self._providers)) or "none"
            line = (
                f"{name}: ${{{provider}:…}} stays as text, there is no config provider {provider} (there are: {there})"
            )
        with self._saying:
            if line in self._said:
                return
            self._said.add(line)
        log.warning(line)

    def resolve_with_origin(self, config: Mapping[str, str]) -> Resolved:
        """As `resolve`, together with the config as written."""
        return Resolved(self.resolve(config), dict(config))


def resolve_own(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> tuple[Resolver, Resolved]:
    """The worker's own properties resolved by the providers that they define themselves."""
    resolver = Resolver.of(properties, environment)
    resolved = resolver.resolve_with_origin(properties)
    return resolver, resolved
