"""The environment variables of Kafka's start scripts: the heap of Spark's JVM, and which others have no effect.

Kafka's scripts give them to the one JVM that does all. Here a JVM only places tasks, so most of them mean nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from mirror_connect.app.config.jaas_file import PROPERTY as LOGIN_FILE
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED, MIRROR_MAKER_1
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS, KAFKA_OPTS

HEAP: Final = "KAFKA_HEAP_OPTS"
MEMORY: Final = "spark.driver.memory"
JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Spark refuses to start with less than 450 MiB, of which the collector keeps some for itself.
LEAST_MIB: Final = 512
# In KAFKA_OPTS these mean here what they mean in Kafka.
USED_OPTIONS: Final = (LOGIN_FILE, f"-D{ALLOWED_URLS}=")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"-Xm([xs])(\d+)([kmgtKMGT]?)")
_LOG: Final = "set MIRROR_CONNECT_LOG_LEVEL"
_DEBUGGER: Final = "there is no Java to debug; MIRROR_CONNECT_LOG_LEVEL=DEBUG logs more"
_JMX: Final = "there is no JMX;"
_LOG_BY_REST: Final = f"{_LOG}, or PUT /admin/loggers/NAME while it runs"
_JMX_OF_CONNECT: Final = f"{_JMX} ask REST, as GET /connectors/NAME/status and /offsets"
# Name → why it has no effect, or what to use. The values are never shown: they may hold passwords.
_OF_CONNECT: Final[Mapping[str, str]] = {
    "KAFKA_LOG4J_OPTS": _LOG_BY_REST,
    "KAFKA_LOG4J_CMD_OPTS": _LOG_BY_REST,
    "KAFKA_JVM_PERFORMANCE_OPTS": f"they suit another JVM; {JVM_OPTIONS} in the properties is for that of Spark",
    "KAFKA_GC_LOG_OPTS": f"{JVM_OPTIONS} in the properties can log the collections of Spark's JVM",
    "KAFKA_JMX_OPTS": _JMX_OF_CONNECT,
    "JMX_PORT": _JMX_OF_CONNECT,
    "KAFKA_DEBUG": _DEBUGGER,
    "JAVA_DEBUG_OPTS": _DEBUGGER,
    "CLASSPATH": "no classes of Java are loaded; plugin.path names those of Python",
}
_STATUS: Final = f"{_JMX} with dedicated.mode.enable.internal.rest=true GET /A/B/connectors/NAME/status shows states"
_LAG: Final = f"{_JMX} kafka-consumer-groups.sh --describe shows the group's lag"
_NO_JVM: Final = "they suit another JVM: that of Spark only places tasks"
# By TaskSpec.program: dedicated mode has no REST that changes something, MirrorMaker 1 neither REST nor properties of Spark.
WITHOUT_EFFECT: Final[Mapping[str, Mapping[str, str]]] = {
    CONNECT: _OF_CONNECT,
    DEDICATED: {
        **_OF_CONNECT,
        **dict.fromkeys(("KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_CMD_OPTS"), _LOG),
        **dict.fromkeys(("KAFKA_JMX_OPTS", "JMX_PORT"), _STATUS),
    },
    MIRROR_MAKER_1: {
        **dict.fromkeys(("KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_CMD_OPTS"), _LOG),
        **dict.fromkeys(("KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS"), _NO_JVM),
        **dict.fromkeys(("KAFKA_JMX_OPTS", "JMX_PORT"), _LAG),
        **dict.fromkeys(("KAFKA_DEBUG", "JAVA_DEBUG_OPTS"), _DEBUGGER),
        "CLASSPATH": "no classes of Java are loaded",
    },
}


def with_heap(spark: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's properties, with the heap that KAFKA_HEAP_OPTS gives unless they have one. ConfigError: it can't be read."""
    sizes = _sizes(environment)
    if not sizes or MEMORY in spark:
        return dict(spark)
    heap = max(*sizes.values(), LEAST_MIB)
    found = {**spark, MEMORY: f"{heap}m"}
    if "s" in sizes:
        found[JVM_OPTIONS] = " ".join(filter(None, (f"-Xms{sizes['s']}m", spark.get(JVM_OPTIONS))))
    return found


def notices(spark: Mapping[str, str], environment: Mapping[str, str], program: str = CONNECT) -> list[str]:
    """A line for each variable that is set and has no effect here, or another one. ConfigError: KAFKA_HEAP_OPTS is wrong.

    `program`: as in a TaskSpec.
    """
    others = (
        f"{name} has no effect: {advice}" for name, advice in WITHOUT_EFFECT[program].items() if environment.get(name)
    )
    return [*_of_heap(spark, environment, program), *_of_options(environment, program), *others]


def _of_heap(spark: Mapping[str, str], environment: Mapping[str, str], program: str) -> Iterator[str]:
    sizes = _sizes(environment)
    if sizes and MEMORY in spark:
        yield f"{HEAP} has no effect: {MEMORY}={spark[MEMORY]} in the properties gives the heap of Spark's JVM"
    elif sizes and max(sizes.values()) < LEAST_MIB:
        yield f"{HEAP} gives {max(sizes.values())} MiB, but Spark's JVM needs {LEAST_MIB}: it gets that"
    others = [_name(each) for each in _words(HEAP, environment) if not _SIZE.fullmatch(each)]
    if others:
        more = "" if program == MIRROR_MAKER_1 else f"; {JVM_OPTIONS} may have more"
        yield f"{HEAP}: only -Xmx and -Xms are used, not {', '.join(others)}{more}"


def _of_options(environment: Mapping[str, str], program: str) -> Iterator[str]:
    try:
        given = shlex.split(environment.get(KAFKA_OPTS, ""))
    except ValueError:  # reported where it is used
        return
    of_mirror_maker = program == MIRROR_MAKER_1
    if of_mirror_maker and any(each.startswith(LOGIN_FILE) for each in given):
        yield f"{KAFKA_OPTS}: {_name(LOGIN_FILE)} has no effect here: set sasl.jaas.config in the clients' files"
    unused = [_name(each) for each in given if each.startswith("-") and not each.startswith(USED_OPTIONS)]
    if unused:
        more = "" if of_mirror_maker else f"; {JVM_OPTIONS} is for Spark's JVM"
        yield f"{KAFKA_OPTS}: {', '.join(unused)} has no effect here{more}"


def _sizes(environment: Mapping[str, str]) -> dict[str, int]:
    """`x` and `s` → MiB of -Xmx and -Xms, rounded up; the last of several counts, as in a JVM."""
    sizes = {}
    for each in _words(HEAP, environment):
        found = _SIZE.fullmatch(each)
        if found is not None:
            sizes[found[1]] = -(-int(found[2]) * _UNITS[found[3].lower()] // _UNITS["m"])
        elif each.startswith(("-Xmx", "-Xms")):
            raise ConfigError(HEAP, each, "a size has to follow, such as -Xmx2G")
    return sizes


def _words(name: str, environment: Mapping[str, str]) -> list[str]:
    # By spaces alone: Kafka's scripts leave them to the shell, which knows no quotes there.
    return environment.get(name, "").split()


def _name(option: str) -> str:
    """The option without its value."""
    return re.sub(r"(?<!-XX)[=:].*", "", option)
