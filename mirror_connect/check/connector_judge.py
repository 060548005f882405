"""Judges a connector's config with the worker's own validation, and with the rows of docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from mirror_connect.app.config.allowed_paths import LookupPaths, files_of_lookups
from mirror_connect.app.config.config_providers import has_reference
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.client_properties import OverridePolicy, split
from mirror_connect.app.herder.config_notices import KNOWN_NAMES, idle_transaction_settings, names_without_effect
from mirror_connect.app.herder.exactly_once_rules import EXACTLY_ONCE, NO_EXACTLY_ONCE, required
from mirror_connect.app.herder.plugins import CLASS
from mirror_connect.app.herder.validation import VERSION, judged_config
from mirror_connect.check.clients import KEEP, client_differences
from mirror_connect.check.connector_deviations import OF_CHECKPOINT, OF_HEARTBEAT, OF_SOURCE
from mirror_connect.check.deviations import BYTES_INSTEAD, Row, row_of
from mirror_connect.check.judgement import Judgement, Verdict, sentence, without_secrets
from mirror_connect.check.worker_deviations import OF_WORKERS
from mirror_connect.connectors import MirrorCheckpoint, MirrorHeartbeat, MirrorSource, connector_definition
from mirror_connect.connectors.config.alias_settings import (
    idle_alias_settings,
    plugin_table,
    unlisted_alias,
    unused_predicates,
    written_aliases,
)
from mirror_connect.connectors.config.converter_settings import CONVERTER_SETTINGS, written_by
from mirror_connect.connectors.config.table import NULL_REFUSED
from mirror_connect.connectors.definition import ConnectorDefinition, UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.dead_letters import TOLERANCE, IdleLetters, idle_dead_letters
from mirror_connect.connectors.mirror.transforms import is_json, looked_into
from mirror_connect.connectors.user_code.known_classes import JSON_CONVERTER, KNOWN_CLASSES, PREDICATE, TRANSFORMATION
from mirror_connect.connectors.user_code.user_class import SETTINGS, is_user_class
from mirror_connect.connectors.wording import likely_name, successor
from mirror_connect.kafka_io.client.client_keys import Kind

Config = Mapping[str, str | None]

REFERENCE: Final = "A config provider of the worker holds the value."
LOOK: Final = "Validate it on the worker: PUT /connector-plugins/…/config/validate."
CORRECT: Final = "Correct the value, or leave the property out."
GIVE: Final = "Give a value."
WITHOUT_TRANSACTIONS: Final = "The worker has no exactly.once.source.support=enabled, so it has no effect."
ENABLE: Final = "Leave it out, or enable that on the workers."
OTHER_CLASS: Final = "Leave it on Kafka Connect: here are the three connectors of MirrorMaker 2."
_ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    MirrorCheckpoint.class_name: OF_CHECKPOINT + OF_SOURCE,
    MirrorHeartbeat.class_name: OF_HEARTBEAT + OF_SOURCE,
}
# What a config needs beside a wrong or unreadable value, so that the rest of it can be judged.
_STAND_INS: Final = {"name": "check", "source.cluster.alias": "source"}
_ALIASES: Final = ("transforms", "predicates")
_APACHE: Final = "org.apache."
_PARTS: Final = ("key", "value")
_LOGIN: Final = ("security.protocol", "sasl.", "ssl.")
# Prefix → kind of the client, and whether it copies the data of a source connector.
_CLIENTS: Final[Mapping[str, tuple[Kind, bool]]] = {
    "source.consumer.": ("consumer", True),
    "consumer.": ("consumer", True),
    "source.cluster.": ("consumer", True),
    "producer.override.": ("producer", True),
    "target.producer.": ("producer", True),
    "producer.": ("producer", True),
    "source.producer.": ("producer", False),
    "target.consumer.": ("consumer", False),
    "source.admin.": ("admin", False),
    "target.admin.": ("admin", False),
    "target.cluster.": ("admin", False),
    "admin.": ("admin", False),
}


def judge_connector(
    config: Config,
    policy: OverridePolicy | None = None,
    support: Support = Support.ENABLED,
    *,
    paths: LookupPaths | None = None,
    flow: str = "",
) -> list[Judgement]:
    """A judgement for each property, in the config's order, then for those that are missing.

    `policy`: the worker's for overrides, if it is known. `support`: its exactly.once.source.support; a worker that is not
    known takes what its connectors require. `paths`: where it reads files of lookups, if it is known. Of a connector that
    does not exist here, only the class is judged.
    `flow`: as `A->B`, if the config is that of a flow of the dedicated MirrorMaker, which all three connectors get.
    """
    class_name = config.get(CLASS)
    if not class_name:
        return [Judgement(CLASS, Verdict.REFUSED, "The config contains no connector type.", GIVE)]
    if has_reference(class_name):
        return [Judgement(CLASS, Verdict.NOT_JUDGED, REFERENCE, LOOK)]
    try:
        definition = connector_definition(class_name)
    except UnknownConnectorClass:
        others = f" Its {len(config) - 1} other properties are not judged." if len(config) > 1 else ""
        return [Judgement(CLASS, Verdict.REFUSED, f"There is no connector of this class here.{others}", OTHER_CLASS)]
    if flow:
        config = definition.of_flow(config)
    referenced = {name for name, value in config.items() if value is not None and has_reference(value)}
    errors = _errors(definition, config, referenced, policy or OverridePolicy(), support)
    errors = _forbidden_lookups(definition, config, referenced, paths) | errors
    idle = idle_transaction_settings(config, support)
    letters = _idle_letters(definition, config, referenced, flow)
    found = []
    for name, value in config.items():
        if name in errors:
            found.append(_refused(name, errors[name], config, definition))
        elif name in referenced and not any(names_without_effect([name])):
            found.append(Judgement(name, Verdict.NOT_JUDGED, REFERENCE, LOOK))
        elif name in SETTINGS and is_user_class(value):
            found.append(Judgement(name, Verdict.NOT_JUDGED, "A class of your own is loaded by the worker only.", LOOK))
        elif (of_alias := _idle_of_alias(name, config, referenced, flow)) is not None:
            found.append(of_alias)
        elif name in idle:
            found.append(Judgement(name, Verdict.DIFFERENT, WITHOUT_TRANSACTIONS, ENABLE, unread=True))
        elif letters is not None and name in letters.names:
            found.append(_idle(name, f"It has no effect, as {letters.why}.", letters.advice))
        else:
            found.append(_accepted(definition, name, value or "", config))
    return found + [_refused(name, text, config, definition) for name, text in errors.items() if name not in config]


def _forbidden_lookups(
    definition: ConnectorDefinition, config: Config, referenced: set[str], paths: LookupPaths | None
) -> dict[str, str]:
    """The errors of files by their paths alone: they are on the worker's host."""
    if paths is None or not isinstance(definition, MirrorSource):
        return {}
    known = {name: value for name, value in config.items() if name not in referenced}
    return {
        name: str(ConfigError(name, path, paths.refusal()))
        for name, path in files_of_lookups(known)
        if paths.permitted(path) is None
    }


def _idle(name: str, text: str, advice: str) -> Judgement:
    return Judgement(name, Verdict.DIFFERENT, text, advice, unread=True, idle=True)


def _idle_letters(
    definition: ConnectorDefinition, config: Config, referenced: set[str], flow: str
) -> IdleLetters | None:
    """Settings of a dead letter topic that a source connector does not use. What a config provider allows is not known."""
    if definition.class_name in _ROWS or TOLERANCE in referenced:
        return None
    return idle_dead_letters(config, flow)


def _idle_of_alias(name: str, config: Config, referenced: set[str], flow: str) -> Judgement | None:
    """Of a setting of a transformation or predicate that has no effect. What a config provider lists is not known."""
    prefix = f"{flow}." if flow else ""
    kind, dot, own = name.partition(".")
    if kind not in _ALIASES or not dot or kind in referenced:
        return None
    if (unlisted := unlisted_alias(name, config)) is not None:
        setting, alias = unlisted
        text = f"{prefix}{setting} does not name {alias}, so it has no effect."
        return _idle(name, text, f"Add {alias} to {prefix}{setting}, or leave it out.")
    if "transforms" not in referenced and kind == "predicates":
        unused = next((each for each in unused_predicates(config) if own.startswith(f"{each}.")), None)
        if unused is not None:
            text = f"No transformation{f' of {flow}' if flow else ''} names predicate {unused}, so it has no effect."
            return _idle(name, text, f"Write {prefix}transforms.….predicate={unused}, or leave it out.")
    # Of a class that a provider names, or that is not here, nobody knows the settings.
    of_classes = {each: value for each, value in config.items() if value is not None}
    idle, known = idle_alias_settings(of_classes)
    if name not in idle or not _has_known_class(name, config):
        return None
    return replace(unknown_property(name, known, prefix), idle=True)


def _has_known_class(name: str, config: Config) -> bool:
    kind = name.partition(".")[0]
    aliases = written_aliases(kind, config)
    types = [config.get(f"{kind}.{alias}.type") for alias in aliases if name.startswith(f"{kind}.{alias}.")]
    return any(each is not None and plugin_table(each) is not None for each in types)


def _errors(
    definition: ConnectorDefinition, config: Config, referenced: set[str], policy: OverridePolicy, support: Support
) -> dict[str, str]:
    """The error of each property that is refused, also of those that the worker would name only after others are mended."""
    errors: dict[str, str] = {}
    judged_names = {name: value for name, value in config.items() if name not in referenced}
    without_logins = False
    while True:
        stand_ins = {name: value for name, value in _STAND_INS.items() if name in errors or name in referenced}
        # PUT takes the name from its path.
        given = {"name": "check", **stand_ins, **judged_names, CLASS: definition.class_name}
        try:
            results = judged_config(definition, given, given, policy, support)
        except BadRequest as error:
            found = {VERSION: str(error)}
        else:
            found = {result.name: result.errors[0] for result in results.values() if result.errors}
            found |= {name: NULL_REFUSED for name, value in given.items() if value is None and name not in found}
            if any(map(_is_login, errors)):
                # What a login lacks without its refused properties is not a mistake of the config.
                found = {name: text for name, text in found.items() if name in config or not _is_login(name)}
            if EXACTLY_ONCE in found and required(given) and support is not Support.ENABLED:
                # What else it needs would be of no use on this worker.
                found[EXACTLY_ONCE] = NO_EXACTLY_ONCE
        # Behind a stand-in nothing is wrong; a login without the values that providers hold looks wrong, and may be right.
        new = {name: text for name, text in found.items() if name not in errors and name not in referenced}
        if referenced and found.keys() & referenced and not without_logins:
            without_logins = True
            judged_names = {name: value for name, value in judged_names.items() if not _is_login(name)}
            new = {name: text for name, text in new.items() if not _is_login(name)}
        elif not new:
            return errors
        errors |= new
        judged_names = {name: value for name, value in judged_names.items() if name not in errors}


def _is_login(name: str) -> bool:
    parts = split(name)
    return parts is not None and parts[1].startswith(_LOGIN)


def _refused(name: str, text: str, config: Config, definition: ConnectorDefinition) -> Judgement:
    row = row_of("security.protocol", OF_WORKERS) if _is_login(name) else row_of(name, _rows(definition))
    advice = row.instead if row is not None else ""
    if name.startswith(tuple(f"{kind}." for kind in _ALIASES)):
        advice = (
            _instead_of_class(name.partition(".")[0], config.get(name) or "", advice) if name.endswith(".type") else ""
        )
    instead = advice or (CORRECT if name in config else GIVE)
    return Judgement(name, Verdict.REFUSED, refusal(name, text, config), instead)


def _instead_of_class(kind: str, value: str, of_others: str) -> str:
    """What to do about a class that is not there. `of_others`: about one that may be in a Kafka Connect with its plugin."""
    class_name = value.strip()
    if not class_name or ("." in class_name and not class_name.startswith(_APACHE)):
        return of_others if class_name else ""
    interface = TRANSFORMATION if kind == "transforms" else PREDICATE
    # By simple names: the packages of all are alike.
    classes = {name.rpartition(".")[2]: name for name, kinds in KNOWN_CLASSES.items() if interface in kinds}
    near = likely_name(class_name.rpartition(".")[2], classes)
    return f"Did you mean {classes[near]}?" if near is not None else ""


def _accepted(definition: ConnectorDefinition, name: str, value: str, config: Config) -> Judgement:
    unknown, misplaced = names_without_effect([name])
    if unknown:
        return unknown_property(name, KNOWN_NAMES)
    if misplaced:
        _, own = split(name) or ("", name)
        advice = f"Write source.consumer.{own} or target.producer.{own}."
        return Judgement(
            name, Verdict.DIFFERENT, "Its prefix does not take it, so it has no effect.", advice, unread=True
        )
    text, instead = next(_differences(definition, name, value, config), ("", ""))
    return Judgement(name, Verdict.DIFFERENT if text else Verdict.SAME, text, instead)


def _differences(definition: ConnectorDefinition, name: str, value: str, config: Config) -> Iterator[tuple[str, str]]:
    if (parts := split(name)) is not None and parts[0] in _CLIENTS:
        kind, copies = _CLIENTS[parts[0]]
        of_source = definition.class_name not in _ROWS
        yield from client_differences(kind, parts[1], value, copies=copies and of_source)
    part, _, own = name.partition(".converter")
    if part in _PARTS and definition.class_name not in _ROWS and part in looked_into(config):
        yield from _of_looked_into(part, own, config)
        return
    if name in CONVERTER_SETTINGS:
        if (text := converter_text(name, value)) is not None:
            yield text, BYTES_INSTEAD
        return
    row = row_of(name, _rows(definition))
    if row is not None and row.differs(value):
        yield row.text, ""


def _of_looked_into(part: str, own: str, config: Config) -> Iterator[tuple[str, str]]:
    """Of the converter of a part that a transformation looks into. `own`: empty, or a setting of the converter."""
    if not is_json(config, part):
        yield (
            f"A transformation looks into {part}s, which it can read as JSON only.",
            f"Set {part}.converter={JSON_CONVERTER}.",
        )
    elif not own:
        yield f"Transformations read {part}s as JSON by it. MirrorMaker gives them bytes, which they refuse.", ""
    elif own == ".schemas.cache.size":
        yield "It has no effect.", KEEP


def converter_text(name: str, value: str) -> str | None:
    """What Kafka Connect would write with the converter of a setting; None if that is the bytes as they are."""
    written = written_by(value)
    if written is None:
        return None
    what = name.removesuffix(".converter")
    return f"Bytes are copied as they are. Kafka Connect would write {what}s {written}."


def unknown_property(name: str, known: Collection[str], prefix: str = "") -> Judgement:
    """Of a name that nobody reads. `prefix`: what stands before the names in their file."""
    if (replaced_by := successor(name, known)) is not None:
        text = "A name of earlier releases of Kafka, so it has no effect."
        return Judgement(name, Verdict.DIFFERENT, text, f"Write {prefix}{replaced_by}.", unread=True)
    near = likely_name(name, known)
    advice = f"Did you mean {prefix}{near}?" if near else "Leave it out."
    return Judgement(name, Verdict.DIFFERENT, "Unknown, so it has no effect.", advice, unread=True)


def _rows(definition: ConnectorDefinition) -> tuple[Row, ...]:
    return _ROWS.get(definition.class_name, OF_SOURCE)


def refusal(name: str, text: str, config: Config) -> str:
    """The error as a sentence; property and value are told beside it already."""
    reason = text.removeprefix(f"Invalid value {config.get(name)} for configuration {name}: ")
    return sentence(without_secrets(reason, config))
