"""The differences between the supported releases of Kafka: jars, logging, and where the metadata is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Tests also copy from and to these: the oldest supported release, in ZooKeeper mode as its users have it, and the last one
# with the formats and requests that Kafka 4.0 dropped.
OLD_VERSIONS: Final = ("2.8.2", "3.9.1")

# kafka_2.13 brings the broker and its clients; DumpLogSegments and the console tools live in kafka-tools.
_ARTIFACTS: Final = (
    "kafka_2.13",
    "kafka-server",
    "kafka-tools",
    "connect-runtime",
    "connect-mirror",
    "connect-mirror-client",
    "connect-basic-auth-extension",
)
# Of older releases only the broker is needed: Connect and MirrorMaker have the present version.
_BROKER_ONLY: Final = ("kafka_2.13",)
# Kafka's poms lack the slf4j binding of its tar file. Without one a failing broker logs nothing, and before 4.0 it doesn't
# start: it needs Log4j 1 to offer its levels over JMX.
_LOG4J_2: Final = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
_LOG4J_1: Final = ("org.slf4j", "slf4j-reload4j", "1.7.36")
_HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Release:
    """`zookeeper`: the brokers keep their metadata there. `log_binding`: organisation, name and revision of a jar.

    `inner_login`: brokers log in to each other. For a SASL login, clients before 4.0 ask Java for the subject of the
    running thread, which Java 24 and later refuse. Listeners work all the same.
    """

    artifacts: tuple[str, ...]
    log_binding: tuple[str, str, str]
    logging_option: str
    zookeeper: bool
    inner_login: bool
    log_dumper: str


def release(version: str) -> Release:
    """The properties of a version such as 3.9.1."""
    major = int(version.partition(".")[0])
    if major >= 4:
        option = f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}"
        dumper = "org.apache.kafka.tools.DumpLogSegments"
        return Release(_ARTIFACTS, _LOG4J_2, option, zookeeper=False, inner_login=True, log_dumper=dumper)
    option = f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}"
    dumper = "kafka.tools.DumpLogSegments"
    return Release(_BROKER_ONLY, _LOG4J_1, option, zookeeper=major < 3, inner_login=False, log_dumper=dumper)
