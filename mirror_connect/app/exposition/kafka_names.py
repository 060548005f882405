"""The names under which Prometheus knows Kafka's own metrics, as people's dashboards have them.

A metric of Kafka is an attribute of an MBean. jmx_exporter makes series of MBeans by rules, and dashboards are written for
Strimzi's rules. Strimzi's Metrics Reporter makes series of the same metrics by rules of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Of type=…; the names of JMX and of Kafka's code.
SOURCE_GROUP: Final = "MirrorSourceConnector"
CHECKPOINT_GROUP: Final = "MirrorCheckpointConnector"
# KIP-1280: where the metrics of both are with `metric.names.formats=new`.
PLUGINS_GROUP: Final = "plugins"
CONNECT: Final = "kafka.connect"
MIRROR: Final = "kafka.connect.mirror"
_PLAIN_TAG: Final = re.compile(r"[\w\-%. \t]*", re.ASCII)
_QUOTED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "*": r"\*", "?": r"\?", "\n": r"\n"})
# Prometheus' Java client keeps these endings for types of its own, and cuts them off the names of gauges.
_RESERVED: Final = ("_total", "_created", "_bucket", "_info")


class Kind(StrEnum):
    """The type of a series. TEXT: a gauge of 1 whose label has the metric's text."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    TEXT = "text"


class NameSet(StrEnum):
    """Values of `metrics.names`: whose names Kafka's own metrics have."""

    JMX = "jmx"
    REPORTER = "reporter"


@dataclass(frozen=True, slots=True)
class KafkaMetric:
    """A metric of Kafka's clients or of Connect: the MBean's domain and `group`, the attribute, the names of its tags."""

    domain: str
    group: str
    name: str
    tags: tuple[str, ...]
    kind: Kind
    meaning: str

    def named(self, names: NameSet) -> str:
        """The name of the series."""
        return self.jmx_name if names is NameSet.JMX else self.reporter_name

    def kind_by(self, names: NameSet) -> Kind:
        """The type of the series: the reporter knows no counters."""
        return Kind.GAUGE if names is NameSet.REPORTER and self.kind is Kind.COUNTER else self.kind

    @property
    def jmx_name(self) -> str:
        """By Strimzi's rules for jmx_exporter. Metrics for which it has none have jmx_exporter's own name."""
        if self.domain == MIRROR or self.group == PLUGINS_GROUP:
            prefix = f"{self.domain}.{self.group}"
        elif self.domain == CONNECT:
            prefix = f"{self.domain}.{self.group.removeprefix('connect-').removesuffix('-metrics')}"
        else:
            prefix = f"kafka.{self.group.removesuffix('-metrics')}"
        return _sanitised(f"{prefix}.{self.name}")

    @property
    def reporter_name(self) -> str:
        """By Strimzi's Metrics Reporter."""
        name = _sanitised(f"{self.domain}.{self.group}.{self.name}")
        for ending in _RESERVED:
            name = name.removesuffix(ending)
        return f"{name}_info" if self.kind is Kind.TEXT else name

    def labels(self, names: NameSet) -> tuple[str, ...]:
        """The names of the labels, in the order of the tags; the one of a text is the last."""
        jmx = names is NameSet.JMX
        tags = [tag.replace("-", "" if jmx else "_") for tag in self.tags]
        return (*tags, self.name.replace("-", "_")) if self.kind is Kind.TEXT else tuple(tags)


def jmx_value(value: str) -> str:
    """The value of a tag as MBeans have it: in quotes if it has signs like `>` and `|`, and these belong to the label."""
    return value if _PLAIN_TAG.fullmatch(value) else f'"{value.translate(_QUOTED)}"'


def tag_value(value: str, names: NameSet) -> str:
    """The value of a tag as a label."""
    return jmx_value(value) if names is NameSet.JMX else value


def _sanitised(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", name.lower())
