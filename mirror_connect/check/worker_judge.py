"""Judges a worker's properties by making the worker's own settings of them, and with the rows of docs/compatibility.md.

The worker ends at the first property that it refuses. So that property is taken out and the rest is tried again, until
nothing is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from mirror_connect.app.config.common_config import known_properties, policy_alias, unknown_properties
from mirror_connect.app.config.exactly_once import SUPPORT, Support
from mirror_connect.app.config.provider_names import providers_without_class
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.app.config.worker_keys import OFFSETS_FILE, WORKER_KEYS, is_of_groups, likely_storage_name
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.app.standalone.standalone_config import standalone_config
from mirror_connect.check.clients import client_differences
from mirror_connect.check.connector_judge import CORRECT, GIVE, converter_text, refusal, unknown_property
from mirror_connect.check.deviations import BYTES_INSTEAD, row_of
from mirror_connect.check.judgement import Judgement, Verdict
from mirror_connect.check.references import CORRECT_REFERENCE, PROVIDE, STAYS, references
from mirror_connect.check.worker_deviations import OF_WORKERS
from mirror_connect.connectors.config.converter_settings import CONVERTER_SETTINGS
from mirror_connect.connectors.config.values import LIST, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, CLIENT_NAMES
from mirror_connect.kafka_io.client.idle_properties import SECURITY

NO_FILE: Final = "There is no such file on this machine."
OF_GROUPS: Final = "No effect: a standalone worker has no group and no topics."
OF_TOPIC: Final = "It is taken for a setting of the topic, which brokers refuse if they do not know it."
LEAVE_OUT: Final = "Leave it out."
_FILES: Final = (".location", ".allowed.paths")
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.")
_STAND_INS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "check",
    OFFSETS_FILE: "/dev/null",
    **{f"{kind}.storage.topic": f"check-{kind}" for kind in ("config", "offset", "status")},
    **dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.converters.ByteArrayConverter"),
}
_TRIES: Final = 100


def judge_worker(properties: Mapping[str, str]) -> list[Judgement]:
    """A judgement for each property, in the file's order, then for those that are missing."""
    referred = references(properties)
    unread = dict(referred.unread)
    unread |= {
        name: (NO_FILE, PROVIDE)
        for name, value in properties.items()
        if name not in unread and _missing_file(name, value)
    }
    errors = _errors(properties, unread)
    without_class = providers_without_class(properties)
    found = []
    for name, value in properties.items():
        if is_of_groups(name) and _is_standalone(properties):
            found.append(Judgement(name, Verdict.DIFFERENT, OF_GROUPS, LEAVE_OUT))
        elif name in errors:
            found.append(_refused(name, errors[name], properties))
        elif name in unread:
            found.append(Judgement(name, Verdict.NOT_JUDGED, *unread[name]))
        elif name in referred.idle:
            found.append(Judgement(name, Verdict.DIFFERENT, STAYS, CORRECT_REFERENCE))
        elif name == "config.providers" and without_class:
            text = f"{', '.join(without_class)} has no class, so it has no effect."
            instead = f"Set {', '.join(f'config.providers.{alias}.class' for alias in without_class)}."
            found.append(Judgement(name, Verdict.DIFFERENT, text, instead))
        else:
            found.append(_accepted(name, value))
    return found + [_refused(name, text, properties) for name, text in errors.items() if name not in properties]


def judge_process_property(name: str, value: str) -> Judgement:
    """Of a property that the dedicated mode hands to its process, after its value has been found right."""
    return _accepted(name, value)


def override_policy(properties: Mapping[str, str]) -> OverridePolicy | None:
    """The policy for connectors' overrides; None if it is none that a worker takes."""
    alias = policy_alias(properties.get("connector.client.config.override.policy", "All"))
    allowed = parse(properties.get("connector.client.config.override.allowlist", ""), LIST)[1]
    return None if alias is None else OverridePolicy.of(alias, allowed or ())


def support_of(properties: Mapping[str, str]) -> Support:
    """What a worker with these properties does about exactly-once copying; as it is without the setting if it is wrong."""
    value = properties.get(SUPPORT, "").strip().lower()
    return Support(value) if value and value in set(Support) else Support.DISABLED


def _is_standalone(properties: Mapping[str, str]) -> bool:
    return OFFSETS_FILE in properties and "group.id" not in properties


def _errors(properties: Mapping[str, str], unread: Collection[str]) -> dict[str, str]:
    """The error of each property that is refused."""
    errors: dict[str, str] = {}
    left = {name: value for name, value in properties.items() if name not in unread}
    stand_ins = {name: value for name, value in _STAND_INS.items() if name in unread}
    standalone = _is_standalone(properties)
    for _ in range(_TRIES):
        try:
            if standalone:
                standalone_config({**stand_ins, **left})
            else:
                worker_config({**stand_ins, **left})
        except ConfigError as error:
            name = error.name
            lacking = name not in properties and _is_security(name) and any(map(_is_security, errors))
            if name in errors or name in unread or lacking:
                # What is missing makes others look wrong: they are left out step by step, and the rest is judged.
                fewer = next(
                    (kept for leave in (_of_listeners, _is_security) if (kept := _without(left, leave)) != left), None
                )
                if fewer is None:
                    return errors
                left = fewer
                continue
            errors[name] = str(error)
            left.pop(name, None)
            if name in _STAND_INS:
                stand_ins[name] = _STAND_INS[name]
        else:
            return errors
    return errors


def _without(properties: Mapping[str, str], leave: Callable[[str], bool]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not leave(name)}


def _of_listeners(name: str) -> bool:
    # Without its key store a listener of https is none.
    return name.startswith(("listeners", "admin.listeners")) or name == "rest.advertised.listener"


def _is_security(name: str) -> bool:
    prefixes = (*(f"{kind}." for kind in CLIENT_KEYS), "")
    return any(name.startswith(prefix) and name.removeprefix(prefix).startswith(_SECURITY) for prefix in prefixes)


def _missing_file(name: str, value: str) -> bool:
    if not name.endswith(_FILES) or not value.strip():
        return False
    return not all(os.path.exists(path.strip()) for path in value.split(","))


def _refused(name: str, text: str, properties: Mapping[str, str]) -> Judgement:
    row = row_of(
        name.partition(".")[2] if name.startswith(tuple(f"{kind}." for kind in CLIENT_KEYS)) else name, OF_WORKERS
    )
    instead = (row.instead if row is not None else "") or (CORRECT if name in properties else GIVE)
    return Judgement(name, Verdict.REFUSED, refusal(name, text, properties), instead)


def _accepted(name: str, value: str) -> Judgement:
    if unknown_properties([name]):
        return unknown_property(name, known_properties())
    if (likely := likely_storage_name(name)) is not None:
        return Judgement(name, Verdict.DIFFERENT, OF_TOPIC, f"Did you mean {likely}?")
    text, instead = next(_differences(name, value), ("", ""))
    return Judgement(name, Verdict.DIFFERENT if text else Verdict.SAME, text, instead)


def _differences(name: str, value: str) -> Iterator[tuple[str, str]]:
    for kind in CLIENT_KEYS:
        own = name.removeprefix(f"{kind}.")
        if own != name and own in CLIENT_NAMES:
            yield from client_differences(kind, own, value, copies=True)
    if name in SECURITY or (name in CLIENT_KEYS["admin"] and name not in WORKER_KEYS):
        yield from client_differences("admin", name, value, copies=False)
    if name in CONVERTER_SETTINGS:
        if (text := converter_text(name, value)) is not None:
            yield text, BYTES_INSTEAD
        return
    row = row_of(name, OF_WORKERS)
    if row is not None and row.differs(value):
        yield row.text, ""
