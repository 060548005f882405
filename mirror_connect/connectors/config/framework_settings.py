"""Connect's own settings of every source connector (ConnectorConfig and SourceConnectorConfig, 4.3.1)."""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    ConfigTable,
    Key,
)
from mirror_connect.connectors.config.validators import (
    aliases,
    between,
    not_empty,
    one_of,
    one_of_in_any_case,
    plain_name,
    stands_for,
    unset_or,
)
from mirror_connect.connectors.user_code.known_classes import CONVERTER, HEADER_CONVERTER

_COMMON: Final = "Common"
_ERRORS: Final = "Error Handling"
_CREATION: Final = "Topic Creation"
_EXACTLY_ONCE: Final = "Exactly Once Support"


def _converter(part: str, order: int, interface: str) -> tuple[Key, Key]:
    name = f"{part.lower()}.converter"
    meaning = (
        f"Class that would convert record {part.lower()}s. Batches are copied as they are, as ByteArrayConverter does."
        + ("" if part == "Header" else f" JsonConverter says that transformations may read {part.lower()}s as JSON.")
    )
    return (
        Key(
            name,
            CLASS,
            None,
            LOW,
            meaning,
            _COMMON,
            order,
            "SHORT",
            f"{part} converter class",
            stands_for(interface),
        ),
        Key(
            f"{name}.plugin.version",
            STRING,
            None,
            LOW,
            f"Version of the {part.lower()} converter.",
            _COMMON,
            order + 1,
            "SHORT",
            f"{part} converter version",
            visible_with=name,
        ),
    )


# fmt: off
CONNECTOR_KEYS: Final = ConfigTable(
    Key("name", STRING, REQUIRED, HIGH, "Name of the connector, unique in the worker group.",
        _COMMON, 1, "MEDIUM", "Connector name", plain_name),
    Key("connector.class", STRING, REQUIRED, HIGH,
        "Class of the connector: its full name, its simple name, or that without \"Connector\".",
        _COMMON, 2, "LONG", "Connector class"),
    Key("connector.plugin.version", STRING, None, MEDIUM, "Version of the connector. No effect: there is one.",
        _COMMON, 3, "MEDIUM", "Connector version"),
    Key("tasks.max", INT, 1, HIGH, "The most tasks this connector may be split into.",
        _COMMON, 4, "SHORT", "Tasks max", between(1)),
    Key("tasks.max.enforce", BOOLEAN, True, LOW, "Deprecated. A connector here never makes more tasks than tasks.max.",
        _COMMON, 5, "SHORT", "Enforce tasks max"),
    *_converter("Key", 6, CONVERTER),
    *_converter("Value", 8, CONVERTER),
    *_converter("Header", 10, HEADER_CONVERTER),
    Key("transforms", LIST, [], LOW,
        "Aliases of the transformations to apply to records, in order. A MirrorSourceConnector takes most of Kafka's; those "
        "that look into keys or values need a JsonConverter for these.",
        "Transforms", 12, "LONG", "Transforms", aliases),
    Key("predicates", LIST, [], LOW, "Aliases of the predicates that transformations use.",
        "Predicates", 13, "LONG", "Predicates", aliases),
    Key("config.action.reload", STRING, "restart", LOW,
        "What to do when a config provider reports a changed value: restart or none. No provider here reports changes.",
        _COMMON, 14, "MEDIUM", "Reload Action", one_of("none", "restart")),
    Key("errors.retry.timeout", LONG, 0, MEDIUM,
        "Milliseconds for which a failed operation is tried again; -1 = forever. No effect: nothing is tried twice.",
        _ERRORS, 1, "MEDIUM", "Retry Timeout for Errors"),
    Key("errors.retry.delay.max.ms", LONG, 60000, MEDIUM,
        "Longest pause between two tries, in milliseconds. No effect.",
        _ERRORS, 2, "MEDIUM", "Maximum Delay Between Retries for Errors"),
    Key("errors.tolerance", STRING, "none", MEDIUM,
        "What becomes of a record that can't be transformed. none: the task fails before it; all: it is skipped and "
        "counted.",
        _ERRORS, 3, "SHORT", "Error Tolerance", one_of("none", "all")),
    Key("errors.log.enable", BOOLEAN, False, MEDIUM, "Whether such records are named in the log.",
        _ERRORS, 4, "SHORT", "Log Errors"),
    Key("errors.log.include.messages", BOOLEAN, False, MEDIUM, "Whether these lines show the record's key and value.",
        _ERRORS, 5, "SHORT", "Log Error Details"),
)

SOURCE_KEYS: Final = ConfigTable(
    Key("topic.creation.groups", LIST, [], LOW,
        "Groups of settings for topics that Connect creates. Remote topics are created by the connector, not by these.",
        _CREATION, 1, "LONG", "Topic Creation Groups", aliases),
    Key("exactly.once.support", STRING, "requested", MEDIUM,
        "requested: exactly-once if the worker has it on; required: not without it.",
        _EXACTLY_ONCE, 2, "SHORT", "Exactly once support", one_of_in_any_case("REQUIRED", "REQUESTED")),
    Key("transaction.boundary", STRING, "poll", MEDIUM,
        "When a transaction ends if exactly-once is on: poll, as soon as the target has what was read; interval. No "
        "connector here takes connector.",
        _EXACTLY_ONCE, 3, "SHORT", "Transaction Boundary", one_of_in_any_case("INTERVAL", "POLL", "CONNECTOR")),
    Key("transaction.boundary.interval.ms", LONG, None, LOW,
        "Milliseconds of a transaction with transaction.boundary=interval; not given: the worker's "
        "offset.flush.interval.ms.",
        _EXACTLY_ONCE, 4, "SHORT", "Transaction boundary interval", unset_or(between(0))),
    Key("offsets.storage.topic", STRING, None, LOW,
        "A topic of its own for this connector's source offsets, made if it is not there. The worker's topic counts for "
        "what is not in it.",
        "offsets.topic", 1, "LONG", "Offsets topic", not_empty),
)
# fmt: on
