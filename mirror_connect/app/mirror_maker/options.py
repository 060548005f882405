"""The command line of MirrorMaker 1, parsed as its joptsimple does: `--name value` or `--name=value`, no abbreviations.

It has the options of Kafka 3.9's tool, the last one, and those of earlier releases that guides still show. `help_text` is
made from the same table. Options that are refused, and options that have no effect here, have a line each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.wording import likely_name

ALL_TOPICS: Final = ".*"
# As in MirrorMaker: a minute of records comes again after a crash.
COMMIT_INTERVAL_MS: Final = 60_000
_INTEGER: Final = re.compile(r"[+-]?\d+")
_LARGEST: Final = 2**31 - 1


class WrongOption(ConfigError):
    """The command line is wrong. The text is one line that names the option."""

    def __init__(self, text: str) -> None:
        super().__init__("command line", None, text)
        self.args = (text,)


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `names`: the first is shown. `value`: what its value is; empty if it has none.

    `value_optional`: it may stand alone. `refused`: why it can't be used. `idle`: why it has no effect.
    """

    names: tuple[str, ...]
    value: str
    text: str
    value_optional: bool = False
    refused: str = ""
    idle: str = ""


_CUSTOM_CODE: Final = "Java classes can't run here. Copy without it"
_CONSUMER: Final = Option(
    ("consumer.config",), "file", "The source: a consumer's properties. Once for each source cluster."
)
_PRODUCER: Final = Option(("producer.config",), "file", "The target: a producer's properties.")
_INCLUDE: Final = Option(("include",), "regex", "Topics to copy. A comma means |.")
_WHITELIST: Final = Option(
    ("whitelist", "white-list"), "regex", "The former name of --include, which counts if both are given."
)
_BLACKLIST: Final = Option(("blacklist",), "regex", "Topics not to copy: all others are copied.")
_ABORT: Final = Option(
    ("abort.on.send.failure", "abort.on.send.fail", "abortOnSendFail"),
    "true|false",
    "Whether to end if the target refuses a record. (default: true)",
    value_optional=True,
)
_INTERVAL: Final = Option(
    ("offset.commit.interval.ms",), "ms", f"Offsets are committed this often. (default: {COMMIT_INTERVAL_MS})"
)
_HELP: Final = Option(("help",), "", "Prints this text.")
_VERSION: Final = Option(("version",), "", "Prints the version.")
OPTIONS: Final = (
    _CONSUMER,
    _PRODUCER,
    _INCLUDE,
    _WHITELIST,
    _BLACKLIST,
    _ABORT,
    _INTERVAL,
    _HELP,
    _VERSION,
    Option(
        ("num.streams",),
        "number",
        "Accepted.",
        idle="each source has one member in its group, which copies all its partitions at once",
    ),
    Option(
        ("num.producers",),
        "number",
        "Accepted.",
        idle="each source has one producer, which sends to all brokers at once",
    ),
    Option(("queue.size",), "number", "Accepted.", idle="no queue of records lies between consumer and producer"),
    Option(("new.consumer",), "", "Accepted.", idle="there is one consumer, and it needs no ZooKeeper"),
    Option(("message.handler",), "class", "Refused.", refused=_CUSTOM_CODE),
    Option(("message.handler.args",), "text", "Refused.", refused=_CUSTOM_CODE),
    Option(("consumer.rebalance.listener", "rebalance.listener"), "class", "Refused.", refused=_CUSTOM_CODE),
    Option(("rebalance.listener.args", "consumer.rebalance.listener.args"), "text", "Refused.", refused=_CUSTOM_CODE),
)
_BY_NAME: Final = {name: option for option in OPTIONS for name in option.names}
_NUMBERS: Final = frozenset({"num.streams", "num.producers", "queue.size"})


@dataclass(frozen=True, slots=True)
class Options:
    """What to do. `expression`: a Java expression of the topics to copy, or with `excludes` of those not to copy.

    `notices`: one line for each option without an effect.
    """

    consumer_files: tuple[str, ...]
    producer_file: str
    expression: str
    excludes: bool
    abort_on_send_failure: bool
    commit_interval_ms: int
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for instead of copying: `what` is `help` or `version`."""

    what: str


def parse(arguments: Sequence[str]) -> Options | Asked:
    """The options of a command line; raises WrongOption."""
    given, stray = _given(arguments)
    for asked in ("help", "version"):
        if asked in given:
            return Asked(asked)
    if stray:
        raise WrongOption(
            f"{stray[0]} belongs to no option: put a value behind its option, and values with spaces in quotes"
        )
    for name in given:
        if reason := _BY_NAME[name].refused:
            raise WrongOption(f"--{name} is refused: {reason}")
    consumers, producers = given.get("consumer.config", []), given.get("producer.config", [])
    if not consumers or not producers:
        missing = "consumer.config" if not consumers else "producer.config"
        raise WrongOption(
            f"Missing required argument --{missing}: the properties file of the {_cluster(missing)} cluster"
        )
    if len(producers) > 1:
        raise WrongOption("--producer.config is given more than once: there is one target cluster")
    for name in _NUMBERS & given.keys():
        _integer(name, _only(given, name))
    expression, excludes = _topics(given)
    return Options(
        consumer_files=tuple(consumers),
        producer_file=producers[0],
        expression=expression,
        excludes=excludes,
        abort_on_send_failure=_boolean(_ABORT.names[0], _only(given, _ABORT.names[0], "true")),
        commit_interval_ms=_interval(given),
        notices=tuple(f"--{name} has no effect: {_BY_NAME[name].idle}" for name in given if _BY_NAME[name].idle),
    )


def topic_expression(given: str) -> str:
    """The Java expression that a list of topics stands for (TopicFilter of Kafka 3.9): commas, spaces, quotes."""
    expression = given.strip().replace(",", "|").replace(" ", "")
    return re.sub(r"[\"']+\Z", "", re.sub(r"\A[\"']+", "", expression))


def help_text(program: str) -> str:
    """What --help prints; at most 100 columns wide."""
    lines = [
        "Continuously copies topics between Kafka clusters, as MirrorMaker 1 does.",
        "",
        f"usage: {program} --consumer.config FILE … --producer.config FILE --include REGEX",
        "",
    ]
    for option in OPTIONS:
        names = ", ".join(f"--{name}" for name in option.names)
        text = f"{option.text.rstrip('.')}: it has no effect." if option.idle else option.text
        lines.append(f"{names}{f' <{option.value}>' if option.value else ''}")
        lines.append(f"    {text}")
    return "\n".join(lines)


def _given(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The values of each option by its first name, and what belongs to no option."""
    given: dict[str, list[str]] = {}
    stray: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            stray += rest
            break
        if not argument.startswith("-") or argument == "-":
            stray.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        option = _BY_NAME.get(name)
        if option is None:
            meant = likely_name(name, _BY_NAME)
            remedy = f"did you mean --{meant}?" if meant else "--help lists all of them"
            raise WrongOption(f"{name} is not a recognized option: {remedy}")
        values = given.setdefault(option.names[0], [])
        if not option.value:
            continue
        if equals:
            values.append(value)
        elif option.value_optional and (not rest or rest[0].startswith("-")):
            values.append("true")
        elif rest:
            values.append(rest.pop(0))
        else:
            raise WrongOption(f"Option {name} requires an argument")
    return given, stray


def _only(given: dict[str, list[str]], name: str, default: str = "") -> str:
    values = given.get(name, [default])
    if len(values) > 1:
        raise WrongOption(f"--{name} is given more than once: {', '.join(values)}")
    return values[0]


def _topics(given: dict[str, list[str]]) -> tuple[str, bool]:
    included = [name for name in ("include", "whitelist") if name in given]
    if included and "blacklist" in given:
        raise WrongOption(
            f"--{included[0]} and --blacklist are given: exactly one of them says which topics are copied"
        )
    if not included and "blacklist" not in given:
        raise WrongOption("include list must be specified: --include says which topics are copied, .* all of them")
    name = included[0] if included else "blacklist"
    return topic_expression(_only(given, name)), not included


def _interval(given: dict[str, list[str]]) -> int:
    name = "offset.commit.interval.ms"
    interval = _integer(name, _only(given, name, str(COMMIT_INTERVAL_MS)))
    if interval < 1:
        raise WrongOption(f"--{name} {interval} must be at least 1")
    return interval


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -_LARGEST - 1 <= int(text) <= _LARGEST:
        raise WrongOption(f"Cannot parse argument '{text}' of option {name}: it has to be a whole number")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise WrongOption(f"Cannot parse argument '{text}' of option {name}: it has to be true or false")
    return text.lower() == "true"


def _cluster(option: str) -> str:
    return "source" if option == "consumer.config" else "target"
