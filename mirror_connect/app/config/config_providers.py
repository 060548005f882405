"""Config providers: `${provider:path:key}` in a config is replaced by what a file, the environment or Kubernetes holds.

Rules and names are Kafka's (ConfigTransformer, AbstractConfig and the three providers of kafka-clients 4.3.1), and of the
three providers that Strimzi adds. A reference stays as text if its provider or key does not exist. References in resolved
values are not replaced.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mirror_connect.app.config.allowed_paths import existing_paths, permitted_path
from mirror_connect.app.config.kubernetes_providers import KubernetesConfigMapProvider, KubernetesSecretProvider
from mirror_connect.app.config.properties import UnreadableFile, properties_of
from mirror_connect.app.config.provider_names import provider_aliases, providers_without_class
from mirror_connect.connectors.config.bounded_file import CantRead, OutsideError, read_file
from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter
from mirror_connect.connectors.secrets import secrets_of

log = logging.getLogger(__name__)

# Other things in braces, such as `${1:-x}`, don't begin like this.
_ALIAS: Final = re.compile(r"[A-Za-z_][\w.-]*")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_STRIMZI: Final = "io.strimzi.kafka."
# So many of the last lines about references are not logged again.
LOGGED_LINES: Final = 256
MEND: Final = "provide it, or correct the reference"


class Provider(Protocol):
    """Gives the values of keys."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The values of the keys that exist; ConfigError if the path can't be read."""

    def absence(self, path: str, key: str) -> str:
        """Why a key has no value, half a sentence. It is for everybody, and says little about files."""


class _AllowedPaths:
    """`allowed.paths`: the paths whose files a provider may read; without it, all files."""

    def __init__(self, name: str, value: str | None) -> None:
        self._allowed: tuple[str, ...] | None = None
        if value is not None and value.strip():
            self._allowed = existing_paths(name, re.split(r"\s*,\s*", value.strip()))

    def permitted(self, path: str) -> str | None:
        """The path to open. None if it is not allowed."""
        permitted = self._within(path)
        if permitted is None:
            self._refuse(path)
        return permitted

    def refusal(self, path: str) -> str | None:
        """Why a path is not permitted, by its name alone; None if it is."""
        return None if self._within(path) is not None else f"{path} is not under the provider's allowed.paths"

    def _within(self, path: str) -> str | None:
        return path if self._allowed is None else permitted_path(path, self._allowed)

    def read(self, path: str, what: str) -> bytes | None:
        """The file at a permitted path; UnreadableFile names `what` and the path.

        None if links lead out of what is allowed. Kafka would follow them.
        """
        try:
            return read_file(path, self._allowed)
        except OutsideError:
            self._refuse(path)
            return None
        except CantRead as error:
            raise UnreadableFile(what, path, str(error), error.reason) from None

    @staticmethod
    def _refuse(path: str) -> None:
        log.error("The path %s is not under the provider's allowed.paths; references to it stay as they are", path)


class FileProvider:
    """A properties file per path, read each time: a changed secret is used from the next start of a connector."""

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

    def absence(self, path: str, key: str) -> str:
        """See Provider."""
        if not path:
            return "it names no file"
        return self._allowed.refusal(path) or f"there is no key {key} in {path} that the provider may read"


class DirectoryProvider:
    """A file per key, whose whole text is the value, as secrets are mounted into containers."""

    def __init__(self, alias: str, parameters: Mapping[str, str]) -> None:
        self._allowed = _AllowedPaths(f"config.providers.{alias}.param.allowed.paths", parameters.get("allowed.paths"))

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Texts of the files in `path` whose names are the keys."""
        folder = self._allowed.permitted(path) if path else None
        if folder is None:
            return {}
        if not os.path.isdir(folder):
            log.warning("The path %s is not a directory; references to it stay as they are", path)
            return {}
        found: dict[str, str] = {}
        for key in keys:
            file = Path(folder) / key
            # Only plain names: Kafka lists the directory, so `../x` never names a file in it.
            if key in ("", ".", "..") or "/" in key or not os.path.isfile(file):
                continue
            content = self._allowed.read(str(file), "file")
            if content is None:
                continue
            try:
                found[key] = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UnreadableFile("file", file, f"it isn't UTF-8 at byte {error.start}") from None
        return found

    def absence(self, path: str, key: str) -> str:
        """See Provider."""
        if not path:
            return "it names no directory"
        return self._allowed.refusal(path) or f"there is no file {key} in {path} that the provider may read"


class EnvironmentProvider:
    """Environment variables whose whole name matches `allowlist.pattern`; without it, all variables."""

    def __init__(self, alias: str, parameters: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        pattern = parameters.get("allowlist.pattern")
        allowed = NameFilter.compile(
            f"config.providers.{alias}.param.allowlist.pattern", [".*" if pattern is None else pattern]
        )
        everything = os.environ if environment is None else environment
        allowed.judge(everything.keys())
        self._variables = {name: value for name, value in everything.items() if allowed.matches(name)}

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Values of the variables; ConfigError for a path."""
        if path:
            raise ConfigError("EnvVarConfigProvider", path, f"Path is not supported for EnvVarConfigProvider: {path}")
        return {key: self._variables[key] for key in keys if key in self._variables}

    def absence(self, path: str, key: str) -> str:
        """See Provider."""
        del path
        return f"there is no variable {key} that the provider may read"


class StrimziEnvironmentProvider(EnvironmentProvider):
    """As EnvironmentProvider, but Strimzi's older class ignores a path."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Values of the variables."""
        return super().get("", keys)


_PROVIDERS: Final[Mapping[str, Callable[[str, Mapping[str, str], Mapping[str, str] | None], Provider]]] = {
    f"{_PACKAGE}FileConfigProvider": lambda alias, parameters, _: FileProvider(alias, parameters),
    f"{_PACKAGE}DirectoryConfigProvider": lambda alias, parameters, _: DirectoryProvider(alias, parameters),
    f"{_PACKAGE}EnvVarConfigProvider": EnvironmentProvider,
    f"{_STRIMZI}EnvVarConfigProvider": StrimziEnvironmentProvider,
    f"{_STRIMZI}KubernetesSecretConfigProvider": KubernetesSecretProvider,
    f"{_STRIMZI}KubernetesConfigMapConfigProvider": KubernetesConfigMapProvider,
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config with its references replaced, and as written: error texts and REST answers quote the latter."""

    values: dict[str, str] = field(repr=False)
    as_written: dict[str, str] = field(repr=False)

    def referenced(self, name: str) -> bool:
        """Whether a provider gave this value or a part of it."""
        return self.values.get(name) != self.as_written.get(name)

    def secrets(self) -> frozenset[str]:
        """Texts to hide, for `redact` and RedactingFilter.learn."""
        return secrets_of(self.values)


@dataclass(frozen=True, slots=True)
class Explained:
    """A config with its references replaced. `unresolved`: by setting, why a reference in it stays as text.

    A reason is half a sentence for everybody. It shows names of providers, paths and keys, and no value.
    """

    values: dict[str, str] = field(repr=False)
    unresolved: dict[str, str]


class _Reference(NamedTuple):
    """`${provider:path:key}` in a text; `path` is empty if there is none."""

    begin: int
    end: int
    provider: str
    path: str
    key: str


def _references(text: str) -> Iterator[_Reference]:
    r"""What Kafka's `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}` finds, but in linear time instead of cubic."""
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


def has_reference(text: str) -> bool:
    """Whether a config provider may replace a part of the text."""
    return next(_references(text), None) is not None


class UnreadableReference(RefusedConfig):
    """A provider can't read what references name. The text is for everybody, and says little about files.

    `names`: the settings that refer to it. `reason`: for the operator, as `/x can't be read: there is no such file`.
    """

    def __init__(self, names: Sequence[str], error: ConfigError) -> None:
        self.names = tuple(names)
        verb = "refers" if len(names) == 1 else "refer"
        super().__init__(names[0], f"{error} ({', '.join(names)} {verb} to it)")
        self.reason = f"{error.name} can't be read: {error.cause}" if isinstance(error, UnreadableFile) else str(error)

    def for_operator(self) -> RefusedConfig:
        """Of a file of the process's own: with the reason."""
        verb = "refers" if len(self.names) == 1 else "refer"
        names = ", ".join(self.names)
        return RefusedConfig(self.name, f"{self.reason}. {names} {verb} to it: {MEND}")


class Resolver:
    """Replaces references. Thread-safe; made once from the worker's properties.

    `notices`: lines about `config.providers` itself, for the log. `unread`: providers
    with paths that are not read; references to them stay as text.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        notices: Iterable[str] = (),
        unread: Collection[tuple[str, str]] = (),
    ) -> None:
        self.notices: Final = tuple(notices)
        self._providers = dict(providers)
        self._unread = frozenset(unread)
        # Hashes of lines, the one that was logged last at the end. Any request to validate a config may make new ones.
        self._logged: OrderedDict[int, None] = OrderedDict()
        self._logging = threading.Lock()
        self._learn: Callable[[frozenset[str], str], None] = lambda *_: None

    def report_secrets_to(self, learn: Callable[[frozenset[str], str], None]) -> None:
        """Calls `learn` with the secrets and the name of every resolved config, in the thread that resolves it."""
        self._learn = learn

    @classmethod
    def of(cls, properties: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Resolver:
        """The providers that `config.providers` names. ConfigError for an unknown class or a wrong parameter."""
        providers: dict[str, Provider] = {}
        lacking = providers_without_class(properties)
        notices = [
            f"config.providers names {alias}, but config.providers.{alias}.class isn't set: ${{{alias}:…}} stays as text"
            for alias in lacking
        ]
        for alias in provider_aliases(properties):
            if alias in lacking:
                continue
            setting = f"config.providers.{alias}.class"
            class_name = properties[setting].strip()
            provider = _PROVIDERS.get(class_name)
            if provider is None:
                raise ConfigError(
                    setting, class_name, f"Class {class_name} could not be found. There are: {', '.join(_PROVIDERS)}"
                )
            prefix = f"config.providers.{alias}.param."
            parameters = {
                name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)
            }
            providers[alias] = provider(alias, parameters, environment)
        return cls(providers, notices)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config with references replaced. ConfigError names an unreadable file, and the settings that refer to it."""
        resolved = self.preview(config)
        self._learn(secrets_of(resolved), resolved.get("name", ""))
        return resolved

    def preview(self, config: Mapping[str, str]) -> dict[str, str]:
        """As `resolve`, but without reporting secrets: for a config that is only validated."""
        return self.explained(config).values

    def explained(self, config: Mapping[str, str]) -> Explained:
        """As `preview`, with what is left as text, see `Validation`."""
        resolved, unresolved = self._previewed(config)
        reasons: dict[str, str] = {}
        for name, reference, written in unresolved:
            self._log_once(self._line(name, reference, written))
            reasons.setdefault(name, self._reason(reference))
        return Explained(resolved, reasons)

    def preview_with_notices(self, config: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """As `preview`, which logs what is returned here: a line for each reference that stays as text."""
        resolved, unresolved = self._previewed(config)
        return resolved, [self._line(*each) for each in unresolved]

    def without_unreadable(self, config: Mapping[str, str]) -> tuple[Resolver, list[UnreadableReference]]:
        """A resolver that leaves alone what can't be read, and the error of each such path."""
        unread, errors = set(self._unread), []
        for place, keys in self._wanted(config).items():
            try:
                self._read(place, keys, config)
            except UnreadableReference as error:
                unread.add(place)
                errors.append(error)
        return Resolver(self._providers, self.notices, unread), errors

    def without_value(self, config: Mapping[str, str]) -> list[tuple[str, str]]:
        """The setting and the provider of each reference that stays as text, but for what is not read on purpose."""
        return [(name, each.provider) for name, each, _ in self._previewed(config)[1]]

    def _previewed(self, config: Mapping[str, str]) -> tuple[dict[str, str], list[tuple[str, _Reference, str]]]:
        # Each path is read once, so that all values of a file are from the same moment.
        found = {place: self._read(place, keys, config) for place, keys in self._wanted(config).items()}
        return self._replaced(config, found)

    def _wanted(self, config: Mapping[str, str]) -> dict[tuple[str, str], set[str]]:
        wanted: dict[tuple[str, str], set[str]] = {}
        for value in config.values():
            for reference in _references(value):
                place = (reference.provider, reference.path)
                if reference.provider in self._providers and place not in self._unread:
                    wanted.setdefault(place, set()).add(reference.key)
        return wanted

    def _read(self, place: tuple[str, str], keys: Collection[str], config: Mapping[str, str]) -> Mapping[str, str]:
        try:
            return self._providers[place[0]].get(place[1], keys)
        except ConfigError as error:
            names = [name for name, value in config.items() if place in {each[2:4] for each in _references(value)}]
            raise UnreadableReference(names, error) from None

    def _replaced(
        self, config: Mapping[str, str], found: Mapping[tuple[str, str], Mapping[str, str]]
    ) -> tuple[dict[str, str], list[tuple[str, _Reference, str]]]:
        resolved: dict[str, str] = {}
        unresolved: list[tuple[str, _Reference, str]] = []
        for name, value in config.items():
            pieces, at = [], 0
            for reference in _references(value):
                written = value[reference.begin : reference.end]
                given = found.get((reference.provider, reference.path), {}).get(reference.key, written)
                pieces += [value[at : reference.begin], given]
                at = reference.end
                left = (reference.provider, reference.path) in self._unread
                if given == written and _ALIAS.fullmatch(reference.provider) and not left:
                    unresolved.append((name, reference, written))
            resolved[name] = "".join([*pieces, value[at:]])
        return resolved, unresolved

    def _line(self, name: str, reference: _Reference, written: str) -> str:
        """Names the cause. As in Connect the reference stays text, and a broker refuses the password `${fil:…}` later."""
        reason = self._reason(reference)
        if reference.provider in self._providers:
            return f"{name}: the reference {written} has no value and stays as text: {reason}"
        return f"{name}: ${{{reference.provider}:…}} stays as text, {reason}"

    def _reason(self, reference: _Reference) -> str:
        provider = self._providers.get(reference.provider)
        if provider is not None:
            return provider.absence(reference.path, reference.key)
        # It shows no more of the reference, which may be a secret that only looks like one.
        there = ", ".join(sorted(self._providers)) or "none"
        return f"there is no config provider {reference.provider} (there are: {there})"

    def _log_once(self, line: str) -> None:
        with self._logging:
            known = hash(line) in self._logged
            self._logged[hash(line)] = None
            self._logged.move_to_end(hash(line))
            if len(self._logged) > LOGGED_LINES:
                self._logged.popitem(last=False)
        if not known:
            log.warning("%s", line)

    def resolve_with_origin(self, config: Mapping[str, str]) -> Resolved:
        """The resolved config, together with the config as written."""
        return Resolved(self.resolve(config), dict(config))


def resolve_own(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None, *, warnings: bool = True
) -> tuple[Resolver, Resolved]:
    """Resolves the worker's own properties with the providers that they define.

    `warnings`: whether doubtful ones are logged.
    """
    resolver = Resolver.of(properties, environment)
    try:
        values, notices = resolver.preview_with_notices(properties)
    except UnreadableReference as error:
        raise error.for_operator() from None
    if warnings:
        for line in (*resolver.notices, *notices):
            log.warning("%s", line)
    return resolver, Resolved(values, dict(properties))
