"""The text that Prometheus reads: samples by series, in the text format 0.0.4 or as OpenMetrics 1.0.

prometheus_client's own writer takes 16 to 32 µs for each sample, so 3 to 7 s for ten thousand partitions, and blocks the
worker's loop meanwhile (docs/decisions). Here the labels of a partition are written once and used for all of its series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from mirror_connect.app.exposition.kafka_names import Kind

# So many samples are written without a pause: less than a millisecond.
AT_ONCE: Final = 250
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Format(Enum):
    """The formats that Prometheus asks for by Accept; the value is the answer's content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Samples:
    """A series with its samples: (labels as `label_text` gives them, value)."""

    name: str
    kind: Kind
    meaning: str
    rows: Iterable[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms of one series: (labels, counts of each bucket, sum). One more bucket than `bounds` has no limit."""

    name: str
    meaning: str
    bounds: Sequence[float]
    rows: Sequence[tuple[str, Sequence[int], float]]


@dataclass(frozen=True, slots=True)
class Summaries:
    """Summaries without quantiles of one series: (labels, count, sum)."""

    name: str
    meaning: str
    rows: Sequence[tuple[str, float, float]]


def label_text(labels: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """Labels as they stand behind a name; the empty text without any."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    inside = ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in pairs])
    return f"{{{inside}}}" if inside else ""


class PartitionLabels:
    """Labels that end with topic and partition. What comes before, and each topic, becomes text once."""

    __slots__ = ("_before", "_quoted", "_topics")

    def __init__(self, before: Iterable[tuple[str, str]], quoted: Callable[[str], str] = str) -> None:
        self._before = "".join([f'{name}="{value.translate(_ESCAPED)}",' for name, value in before])
        self._quoted = quoted
        self._topics: dict[str, str] = {}

    def text(self, topic: str, partition: int | None) -> str:
        """As `label_text`; `partition`: None for a whole topic."""
        found = self._topics.get(topic)
        if found is None:
            escaped = self._quoted(topic).translate(_ESCAPED)
            found = self._topics[topic] = f'{{{self._before}topic="{escaped}"'
        return f"{found}}}" if partition is None else f'{found},partition="{partition}"}}'


Series = Samples | Histograms | Summaries


def written(series: Series, text_format: Format) -> Iterator[str]:
    """The lines of a series, in pieces of at most AT_ONCE samples; nothing without samples."""
    pieces: Iterator[str]
    if isinstance(series, Histograms):
        kind, pieces = Kind.HISTOGRAM, (_histogram(series, *row) for row in series.rows)
    elif isinstance(series, Summaries):
        kind, name = Kind.SUMMARY, series.name
        pieces = (f"{name}_count{labels} {count}\n{name}_sum{labels} {total}\n" for labels, count, total in series.rows)
    else:
        kind, pieces = series.kind, _pieces(series)
    first = next(pieces, "")
    if not first:
        return
    name = series.name
    if kind is Kind.TEXT:
        kind = Kind.GAUGE
    if kind is Kind.COUNTER and not name.endswith("_total") and text_format is Format.OPEN_METRICS:
        # There a counter has to end so. The name is Kafka's and stays.
        kind = Kind.GAUGE
    # The family of a counter has no ending in OpenMetrics; its samples have.
    family = name.removesuffix("_total") if kind is Kind.COUNTER and text_format is Format.OPEN_METRICS else name
    yield f"# HELP {family} {_help(series.meaning, text_format)}\n# TYPE {family} {kind.value}\n"
    yield first
    yield from pieces


def _pieces(series: Samples) -> Iterator[str]:
    name, rows = series.name, iter(series.rows)
    while some := list(islice(rows, AT_ONCE)):
        yield "".join([f"{name}{labels} {value}\n" for labels, value in some])


def end(text_format: Format) -> str:
    """The last line."""
    return "# EOF\n" if text_format is Format.OPEN_METRICS else ""


def _histogram(series: Histograms, labels: str, counts: Sequence[int], total: float) -> str:
    name, before = series.name, labels[:-1] + "," if labels else "{"
    lines, seen = [], 0
    for bound, count in zip((*series.bounds, None), counts, strict=True):
        seen += count
        limit = "+Inf" if bound is None else repr(float(bound))
        lines.append(f'{name}_bucket{before}le="{limit}"}} {seen}\n')
    lines.append(f"{name}_sum{labels} {total}\n{name}_count{labels} {seen}\n")
    return "".join(lines)


def _help(meaning: str, text_format: Format) -> str:
    escaped = meaning.translate(_HELP_ESCAPED)
    return escaped.replace('"', r"\"") if text_format is Format.OPEN_METRICS else escaped
