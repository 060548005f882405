"""Environment variables of other images of Kafka Connect, made into a worker's properties.

Two conventions: Confluent's (`CONNECT_…`) and Debezium's (`BOOTSTRAP_SERVERS`, `GROUP_ID` …). What has no effect here is
named. No value is shown: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PREFIX: Final = "CONNECT_"
REQUIRED: Final = (
    "CONNECT_BOOTSTRAP_SERVERS",
    "CONNECT_GROUP_ID",
    "CONNECT_CONFIG_STORAGE_TOPIC",
    "CONNECT_OFFSET_STORAGE_TOPIC",
    "CONNECT_STATUS_STORAGE_TOPIC",
    "CONNECT_KEY_CONVERTER",
    "CONNECT_VALUE_CONVERTER",
    "CONNECT_REST_ADVERTISED_HOST_NAME",
)
# Debezium's name → the property. Any of the first four makes the convention Debezium's.
SHORT_NAMES: Final[Mapping[str, str]] = {
    "BOOTSTRAP_SERVERS": "bootstrap.servers",
    "GROUP_ID": "group.id",
    "CONFIG_STORAGE_TOPIC": "config.storage.topic",
    "OFFSET_STORAGE_TOPIC": "offset.storage.topic",
    "STATUS_STORAGE_TOPIC": "status.storage.topic",
    "KEY_CONVERTER": "key.converter",
    "VALUE_CONVERTER": "value.converter",
    "ADVERTISED_HOST_NAME": "rest.advertised.host.name",
    "ADVERTISED_PORT": "rest.advertised.port",
    "OFFSET_FLUSH_INTERVAL_MS": "offset.flush.interval.ms",
    "OFFSET_FLUSH_TIMEOUT_MS": "offset.flush.timeout.ms",
    "SHUTDOWN_TIMEOUT": "task.shutdown.graceful.timeout.ms",
}
_TELLING: Final = tuple(SHORT_NAMES)[:4]
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
# What Debezium's image has in its file before it reads a variable: Kafka's config/connect-distributed.properties.
_DEBEZIUM_DEFAULTS: Final[Mapping[str, str]] = {
    "group.id": "1",
    "status.storage.topic": "connect-status",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.flush.interval.ms": "60000",
}
# Of the container's start, and no property: for how many seconds it waits for brokers.
BROKERS_TIMEOUT: Final = "CONNECT_CUB_KAFKA_TIMEOUT"
_WITHOUT_EFFECT: Final = re.compile(
    r"CONNECT_(TOOLS_)?LOG4J_.*|CONNECT_METRIC_REPORTERS|CONNECT_CUB_.*|ENABLE_\w+|JMX\w+|JFR_\w+|APICURIO_REGISTRY"
)
_LEVELS: Final = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "CRITICAL"}
_REST_PORT: Final = "8083"


class Mistake(Exception):
    """The container can't start. The text is one line that says what to set."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the variables say: a worker's properties, variables to set for the worker, and lines for the log."""

    convention: str
    properties: dict[str, str] = field(repr=False)
    variables: dict[str, str]
    notes: list[str]


def from_variables(environment: Mapping[str, str], address: str) -> Given | None:
    """The properties by the convention that the variables follow; None for neither. Mistake names what is missing.

    `address`: the container's, under which other workers reach it unless a variable says otherwise.
    """
    if any(environment.get(name) for name in _TELLING):
        return _debezium(environment, address)
    if any(environment.get(name) for name in REQUIRED):
        return _confluent(environment)
    return None


def _confluent(environment: Mapping[str, str]) -> Given:
    missing = [name for name in REQUIRED if not environment.get(name)]
    if missing:
        raise _missing(missing, "as for Confluent's image")
    properties = {}
    notes = []
    for name in _of_properties(environment):
        properties[_dashed(name.removeprefix(PREFIX))] = environment[name]
        if "__" in name:
            notes.append(f"{name} is the property {_dashed(name.removeprefix(PREFIX))}")
    _serve_where_asked(properties)
    return Given("Confluent's", properties, _variables(environment), [*notes, *_idle(environment)])


def _debezium(environment: Mapping[str, str], address: str) -> Given:
    short = {named: environment[name] for name, named in SHORT_NAMES.items() if environment.get(name)}
    # All underscores are dots there: its image knows no way to write a dash.
    long = {
        name.removeprefix(PREFIX).lower().replace("_", "."): environment[name] for name in _of_properties(environment)
    }
    properties = {**_DEBEZIUM_DEFAULTS, "rest.advertised.host.name": address, **long, **short}
    for part in ("HOST_NAME", "PORT"):
        if environment.get(f"REST_{part}"):
            properties[f"rest.{part.lower().replace('_', '.')}"] = environment[f"REST_{part}"]
    if "ADVERTISED_HOST_NAME" not in environment and environment.get("HOST_NAME"):
        properties["rest.advertised.host.name"] = environment["HOST_NAME"]
    names = {named: name for name, named in SHORT_NAMES.items()}
    needed = ("bootstrap.servers", "config.storage.topic", "offset.storage.topic")
    missing = [names[name] for name in needed if not properties.get(name)]
    if missing:
        raise _missing(missing, "as for Debezium's image")
    _serve_where_asked(properties)
    variables = _variables(environment)
    if environment.get("HEAP_OPTS"):
        variables["KAFKA_HEAP_OPTS"] = environment["HEAP_OPTS"]
    return Given("Debezium's", properties, variables, _idle(environment))


def _missing(names: list[str], how: str) -> Mistake:
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    return Mistake(f"{', '.join(names)} {verb} missing: set {them}, {how} (docs/containers.md)")


def _of_properties(environment: Mapping[str, str]) -> list[str]:
    return [name for name in sorted(environment) if name.startswith(PREFIX) and not _WITHOUT_EFFECT.fullmatch(name)]


def _dashed(name: str) -> str:
    """As Confluent's image does it: `_` between others is a dot, `__` an underscore, `___` a dash.

    The rule is that of env_to_props() in its dub.py, up to 8.0, and of ConvertKey() in its ub, since 8.1.
    """
    name = re.sub(r"(?<=[^_])_(?=[^_])", ".", name.lower())
    return name.replace("___", "-").replace("__", "_")


def _serve_where_asked(properties: dict[str, str]) -> None:
    """`rest.host.name` and `rest.port` of older releases become `listeners`, unless those are given."""
    host, port = properties.pop("rest.host.name", ""), properties.pop("rest.port", _REST_PORT)
    if "listeners" in properties or (not host and port == _REST_PORT):
        return
    properties["listeners"] = f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    level = (environment.get("CONNECT_LOG4J_ROOT_LOGLEVEL") or environment.get("LOG_LEVEL") or "").upper()
    if not level or environment.get("MIRROR_CONNECT_LOG_LEVEL"):
        return {}
    return {"MIRROR_CONNECT_LOG_LEVEL": _LEVELS.get(level, level)}


def _idle(environment: Mapping[str, str]) -> list[str]:
    idle = [
        name
        for name in sorted(environment)
        if _WITHOUT_EFFECT.fullmatch(name)
        and name not in ("CONNECT_LOG4J_ROOT_LOGLEVEL", BROKERS_TIMEOUT)
        # Debezium's switches are off by default, and said to be so in many files.
        and not (name.startswith("ENABLE_") and environment[name].lower() != "true")
    ]
    return [f"Without effect here: {', '.join(idle)}"] if idle else []


def properties_text(properties: Mapping[str, str]) -> str:
    """The properties as a file in ISO-8859-1. Values stay as those images write them: a backslash escapes in them.

    Only what would break the file is escaped: a line break that nothing continues, a backslash at a value's end, which
    would make the next property a part of this one, and other characters.
    """
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str) -> str:
    # A file of variables with Windows' line ends leaves one behind each value.
    text = re.sub(r"(?<!\\)(\r\n?|\n)", r"\\n", text.removesuffix("\r"))
    if (len(text) - len(text.rstrip("\\"))) % 2:
        text += "\\"
    return "".join(each if ord(each) < 0x7F else _unicode(each) for each in text)


def _unicode(character: str) -> str:
    octets = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{octets[at]:02x}{octets[at + 1]:02x}" for at in range(0, len(octets), 2))


def write_private(path: Path, text: str) -> None:
    """Writes a file that its owner alone can read: it may hold passwords."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, "iso-8859-1")
