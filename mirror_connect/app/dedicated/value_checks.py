"""Checks the values in an mm2.properties file: by the tables that the connectors and workers of its flows are checked by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from mirror_connect.app.config.allowed_paths import LookupPaths, files_of_lookups
from mirror_connect.app.config.config_providers import Resolved
from mirror_connect.app.config.exactly_once import SUPPORT, Support
from mirror_connect.app.config.provider_names import provider_aliases, providers_without_class
from mirror_connect.app.config.worker_config import checked_settings, storage_fixed
from mirror_connect.app.config.worker_keys import WORKER_KEYS
from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mirror_maker_rules import HEARTBEATS
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.producer_logins import ASKERS, check_producers
from mirror_connect.app.dedicated.property_places import INTERNAL_REST
from mirror_connect.app.herder.client_properties import OverridePolicy, check_client_properties
from mirror_connect.app.herder.exactly_once_rules import check_exactly_once
from mirror_connect.connectors import MirrorSource, connector_definition
from mirror_connect.connectors.config.alias_settings import check_aliases
from mirror_connect.connectors.config.table import BOOLEAN, INT, LIST, LONG, LOW, SHORT, ConfigTable, Key, ValidatedKey
from mirror_connect.connectors.config.values import trim
from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, without_work

_OF_FILE: Final = ConfigTable(Key(INTERNAL_REST, BOOLEAN, False, LOW, "Whether the process has a REST interface."))
_EXPRESSIONS: Final = frozenset({"topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude"})
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][\w.-]*+):[^{}]*+\}")
_COMMENT: Final = re.compile(r"\s[#!]")
_REMEDIES: Final[Mapping[str, str]] = {
    BOOLEAN: "write true or false",
    INT: "write a whole number",
    LONG: "write a whole number",
    SHORT: "write a whole number",
}
# A property of a connector or worker → the property of the file that gives it.
_Origin = Callable[[str], str | None]


def check_values(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Errors of values, each once: many flows may share a property."""
    found: dict[tuple[str, FindingCode], Mm2Finding] = {}
    for finding in _all(file, flows):
        found.setdefault((finding.name, finding.code), finding)
    yield from found.values()
    named = {name for name, _ in found}
    for flow in flows:
        for finding in check_producers(file, flow):
            if finding.name not in named:
                named.add(finding.name)
                yield finding


def check_comments(file: Mm2Properties, refused: frozenset[str]) -> Iterator[Mm2Finding]:
    """Warnings of lists that end with what was meant as a comment. `refused`: properties with errors."""
    for name, value in file.located.values.items():
        is_list = name in _EXPRESSIONS or any(name.endswith(f".{each}") for each in _EXPRESSIONS)
        if is_list and name not in refused and _COMMENT.search(value):
            text = "a # behind a value begins no comment, so it is part of the last entry, which matches nothing"
            yield file.warning(FindingCode.COMMENT_IN_VALUE, name, text, "put the comment on a line of its own")


def check_references(file: Mm2Properties) -> Iterator[Mm2Finding]:
    """Warnings of references to config providers that stay as text."""
    values = file.located.values
    aliases = provider_aliases(values)
    without_class = providers_without_class(values)
    used = set()
    for name, value in values.items():
        for reference in _REFERENCE.finditer(value):
            if reference[0] not in file.resolved[name]:
                continue
            alias = reference[1]
            used.add(alias)
            if alias not in aliases:
                reason, remedy = f"there is no config provider {alias}", "name the provider in config.providers"
            elif alias in without_class:
                reason, remedy = f"the config provider {alias} has no class", f"set config.providers.{alias}.class"
            else:
                reason, remedy = "it has no value", "correct its path or key"
            text = f"the reference ${{{alias}:…}} stays as text: {reason}"
            yield file.warning(FindingCode.REFERENCE_UNRESOLVED, name, text, remedy)
    for alias in without_class:
        if alias not in used:
            text, remedy = f"the config provider {alias} has no class", f"set config.providers.{alias}.class"
            yield file.warning(FindingCode.NAME_WITHOUT_EFFECT, "config.providers", text, remedy)


def check_storage(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Warnings of properties of internal topics that have no effect."""
    found = dict.fromkeys(
        file.origin_in_worker(flow.target, name) or "" for flow in flows for name in storage_fixed(flow.worker)
    )
    for name in found:
        yield file.warning(FindingCode.NAME_WITHOUT_EFFECT, name, "it has no effect: the worker needs its own value")


def check_checkpoints(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Warnings of flows that have no checkpoint connector, as Kafka refuses one without work."""
    found = set()
    for flow in flows:
        if flow.enabled and MirrorCheckpoint().simple_name not in flow.connectors:
            name = without_work(file.resolve(next(iter(flow.connectors.values()))))
            found.add(file.origin_in_connectors(flow.source, flow.target, name or "") or "")
    for name in sorted(found):
        text = "no checkpoints are written and no group offsets synced: MirrorMaker refuses the connector, too"
        yield file.warning(FindingCode.NO_CHECKPOINTS, name, text, "leave it out to have them")


def _all(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    written = file.located.values
    for result in _OF_FILE.validate_all(file.resolved, written).values():
        yield from _errors(file, result, lambda name: name)
    for flow in flows:
        yield from _of_connectors(file, flow)
        yield from _of_worker(file, flow)


def _of_connectors(file: Mm2Properties, flow: Flow) -> Iterator[Mm2Finding]:
    def origin(name: str) -> str | None:
        return file.origin_in_connectors(flow.source, flow.target, name)

    asked = file.resolve(flow.worker).get(SUPPORT, "").strip().lower()
    paths = LookupPaths.of(file.resolve(file.process()))
    support = Support(asked) if asked and asked in set(Support) else Support.DISABLED
    for config in flow.connectors.values():
        resolved = file.resolve(config)
        try:
            definition = connector_definition(resolved["connector.class"], config["connector.class"])
        except UnknownConnectorClass as error:
            at = origin("connector.class") or ""
            yield file.error(FindingCode.VALUE_INVALID, at, str(error), "leave it out: a flow has all three connectors")
            return
        if not flow.enabled and HEARTBEATS not in definition.keys:
            continue  # it does nothing, and what it lacks may be left out on purpose
        own, as_written = definition.of_flow(resolved), definition.of_flow(config)
        results = definition.validate(own, as_written)
        results |= check_aliases(results, own, as_written)
        check_exactly_once(results, definition, resolved, support)
        results |= check_client_properties(resolved, config, OverridePolicy())
        for name, path in files_of_lookups(own) if isinstance(definition, MirrorSource) else ():
            # By its path alone: the file may come later.
            if not results[name].errors and paths.permitted(path) is None:
                results[name].errors.append(str(ConfigError(name, as_written[name], paths.refusal())))
        for result in results.values():
            missing = None if origin(result.name) else _missing_login(file, flow, result, origin)
            yield from _errors(file, result, origin) if missing is None else (missing,)


def _of_worker(file: Mm2Properties, flow: Flow) -> Iterator[Mm2Finding]:
    def origin(name: str) -> str | None:
        return name if name in process else file.origin_in_worker(flow.target, name)

    process = file.process()
    as_written = {**flow.worker, **process}
    resolved = Resolved(file.resolve(as_written), as_written)
    if not resolved.values.get("bootstrap.servers"):
        return  # its absence is reported by itself
    wrong = False
    for result in WORKER_KEYS.validate_all(resolved.values, as_written).values():
        for finding in _errors(file, result, origin):
            wrong = True
            yield finding
    try:
        if not wrong:
            checked_settings(resolved)
    except ConfigError as error:
        at = origin(error.name) or ""
        problem = str(error)
        value = resolved.values.get(error.name)
        if value and resolved.referenced(error.name):
            # A provider's value may be a secret: the text quotes the reference instead.
            problem = problem.replace(value, resolved.as_written[error.name])
        yield file.error(FindingCode.VALUE_INVALID, at, plain_problem(problem, error.name, at, file), _remedy(file, at))


def _errors(file: Mm2Properties, result: ValidatedKey, origin: _Origin) -> Iterator[Mm2Finding]:
    # Kafka reports a value that it cannot read twice: the second one says that it is null.
    for problem in result.errors[:1]:
        at = origin(result.name) or ""
        code = FindingCode.EXPRESSION_INVALID if _is_expression(result) else FindingCode.VALUE_INVALID
        yield file.error(code, at, plain_problem(problem, result.name, at, file), _remedy(file, at, result))


def _missing_login(file: Mm2Properties, flow: Flow, result: ValidatedKey, origin: _Origin) -> Mm2Finding | None:
    """What a login lacks, at the property that asks for it; None for other errors."""
    side, _, rest = result.name.partition(".")
    _, _, name = rest.partition(".")
    if not result.errors or side not in ("source", "target") or not name.startswith("sasl."):
        return None
    askers = (f"{side}.{part}.{asker}" for asker in ASKERS for part in ("cluster", "consumer", "admin", "producer"))
    at = next(filter(None, map(origin, askers)), "")
    problem = result.errors[0].removeprefix(f"Invalid {result.name}: ").rstrip(".")
    of_all = at in ASKERS
    lacking = name if of_all else f"{flow.source if side == 'source' else flow.target}.{name}"
    return file.error(FindingCode.PROPERTY_MISSING, at, f"it needs {lacking}: {problem}")


def _is_expression(result: ValidatedKey) -> bool:
    # A list that can be read and is refused all the same, though no entry is there twice.
    return result.name in _EXPRESSIONS and (
        result.parsed is None or (len(set(result.parsed)) == len(result.parsed) and "" not in result.parsed)
    )


def plain_problem(problem: str, name: str, at: str, file: Mm2Properties) -> str:
    """Kafka's text without the property and its value, which the line names by itself."""
    quoted, found, rest = problem.removeprefix("Invalid value ").partition(f" for configuration {name}: ")
    if found:
        # Kafka quotes the value as read, and of a list the entry that is wrong.
        given = trim(file.located.values.get(at, ""))
        problem = rest if quoted.startswith("[") or trim(quoted) == given else f"{quoted}: {rest}"
    return problem.removeprefix(f"Invalid {name}: ").rstrip(".")


def _remedy(file: Mm2Properties, at: str, result: ValidatedKey | None = None) -> str:
    value = file.located.values.get(at, "")
    if _COMMENT.search(value):
        return "a # behind a value begins no comment: put the comment on a line of its own"
    if result is None:
        return ""
    if _is_expression(result):
        every = trim(value) == "*"
        return "write .* for all names" if every else "correct the entry: entries are Java's regular expressions"
    if result.key is not None and result.key.type == LIST and isinstance(result.parsed, list):
        return "name each entry once" if len(set(result.parsed)) < len(result.parsed) else ""
    return "" if result.key is None else _REMEDIES.get(result.key.type, "")
