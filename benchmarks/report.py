"""RESULTS.md: everything that was measured, beside what is aimed at, with what one needs to measure it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks import (
    compute,
    dedicated_start,
    epochs,
    exactly_once_findings,
    far,
    findings,
    following,
    light_connectors,
    many_partitions,
    scaling,
    spark_placement,
    takeover,
    transforms,
)
from benchmarks.comparison import rows
from benchmarks.findings import Aim, Table
from benchmarks.methods import COPYING, HOW
from benchmarks.plan import FULL_PROFILES, OTHERS
from benchmarks.provenance import OLD_COMMITS, UNKNOWN, History
from benchmarks.store import PICTURE, Part

Finding = Callable[[Any], tuple[Table, list[Aim]]]

THROUGHPUT: Final = "throughput "
# Heading, part, what makes its table; the throughput has a part for each profile.
_SECTIONS: Final[Sequence[tuple[str, str, Finding]]] = (
    (COPYING, THROUGHPUT, findings.throughput),
    ("Latency", "latency", findings.latency),
    ("Latency on a saturated machine", "latency-saturated", findings.latency),
    ("Latency while an epoch ends", "epochs", epochs.findings),
    ("Memory, idle", "memory", findings.idle),
    ("Memory, slow target", "memory", findings.throttled),
    ("Start", "startup", findings.startup),
    ("Start of dedicated mode", "dedicated-start", dedicated_start.findings),
    ("Light connectors", "light-connectors", light_connectors.findings),
    ("Many connectors", "many-connectors", findings.many_connectors),
    ("Many partitions", "many-partitions", many_partitions.findings),
    ("Groups that move", "failover", findings.failover),
    ("Take-over by another worker", "takeover", takeover.findings),
    ("Copying exactly once", "exactly-once", exactly_once_findings.findings_of_copying),
    ("Latency exactly once", "exactly-once", exactly_once_findings.findings_of_latency),
    ("Many topics", "many-topics", findings.many_topics),
    ("Copying beside many topics", "many-topics", findings.copying_beside),
    ("Verifying behind a link", "following", following.findings),
    ("Partitions and tasks", "scaling", scaling.findings),
    ("A Spark cluster", "cluster", spark_placement.findings),
    ("Long distances", "far", far.findings),
    ("SQL in flight", "compute", compute.findings_of_cost),
    ("Latency with SQL in flight", "compute", compute.findings_of_latency),
    ("Transformations of bytes", "transforms", transforms.findings),
)
NAMES: Final = frozenset((*(THROUGHPUT + name for name in FULL_PROFILES), *OTHERS))

# Above this somebody else's work is in the times.
QUIET_LOAD: Final = 0.7
NO_HISTORY: Final = History()
DIRTY: Final = "dirty tree"


@dataclass(frozen=True, slots=True)
class Section:
    """One heading with its table; `parts`: names of the parts that the figures are from."""

    heading: str
    table: Table
    parts: Sequence[str]


def render(parts: Mapping[str, Part], history: History = NO_HISTORY) -> str:
    """The whole file as Markdown; `history` tells how old each part is."""
    return "\n".join(_lines(parts, history)).rstrip() + "\n"


def throughput_figures(parts: Mapping[str, Part]) -> list[Any]:
    """Those of all profiles."""
    return [figures for name, part in parts.items() if name.startswith(THROUGHPUT) for figures in part.figures]


def sections(parts: Mapping[str, Part]) -> Iterator[Section]:
    """Everything that was measured, in the order of the report."""
    for heading, name, finding in _SECTIONS:
        names = _names(parts, name)
        figures = throughput_figures(parts) if name == THROUGHPUT else parts[name].figures if names else None
        if figures:
            yield Section(heading, finding(figures)[0], names)


def verdicts(parts: Mapping[str, Part]) -> list[tuple[Aim, str]]:
    """Every aim that these parts say something about, none left out, with the name of its part."""
    return [
        (_of_a_dirty_tree(aim) if parts[measured].dirty else aim, measured)
        for _, name, finding in _SECTIONS
        for measured in _names(parts, name)
        for aim in finding(parts[measured].figures)[1]
    ]


def _of_a_dirty_tree(aim: Aim) -> Aim:
    """It may miss, and is not met: no commit tells what was measured."""
    return aim if aim.met is False else replace(aim, met=None, doubt=DIRTY)


def marks(part: Part, history: History) -> list[str]:
    """What keeps a part's figures from being quoted for `history.head`; nothing: they may be."""
    age = history.ages.get(part.commit)
    found = []
    if age is None:
        found.append("of a commit that is not in this history" if part.commit != UNKNOWN else "of an unknown commit")
    elif age > OLD_COMMITS:
        found.append(f"{age} commits ago")
    if part.dirty:
        found.append(DIRTY)
    if part.load_before is not None and part.load_before > QUIET_LOAD:
        found.append(f"busy machine (load {part.load_before:.1f})")
    return found


def warnings(parts: Mapping[str, Part], history: History) -> list[str]:
    """A line for each part that has a mark."""
    return [
        f"{name}, measured at {part.commit}: {', '.join(marked)}"
        for name, part in parts.items()
        if (marked := marks(part, history))
    ]


def _all_names(parts: Mapping[str, Part]) -> Iterator[tuple[str, list[str]]]:
    """Each kind of part once, in the order of the report, with the parts there are of it."""
    for kind in dict.fromkeys(name for _, name, _ in _SECTIONS):
        yield kind, _names(parts, kind)


def _names(parts: Mapping[str, Part], wanted: str) -> list[str]:
    if wanted == THROUGHPUT:
        return [name for name in parts if name.startswith(THROUGHPUT)]
    return [wanted] if wanted in parts else []


def _lines(parts: Mapping[str, Part], history: History) -> Iterator[str]:
    yield "# mirror-connect beside MirrorMaker 2"
    yield ""
    yield (
        "Written by `make bench`; nothing in here is typed by hand. Ratios count, absolute figures belong to the machine."
        f" Rendered at commit {history.head}. **Marked** is what does not describe that commit: figures of more than"
        f" {OLD_COMMITS} commits ago, of a tree with changes that were in no commit, of a machine that was busy with"
        " something else. `make bench` measures all of it anew."
    )
    yield ""
    yield "## Aims"
    yield ""
    yield (
        "Each moment that was measured has its row. An aim that is missed stays here. A figure *does not count* that was not"
        " measured as it has to be: in a run too short, or with records that never arrived, or"
        f" in rounds of which one is more than {findings.STEADY:g} times another, or"
        f" {findings.UNPAIRED}: that is a difference of two percentiles, as it was measured once, and no percentile of the"
        " records' own differences. Nor does one count that was measured in a tree with changes that were in no commit. An"
        " unpaired figure, and one of such a tree, can miss an aim and can't meet one. Old figures count for their commit."
    )
    yield ""
    yield from _markdown(
        Table(
            ("Aim", "measured", "wanted", "", "at commit"),
            [
                (aim.what, aim.measured, aim.wanted, _loud(aim), _origin(parts[name], history))
                for aim, name in verdicts(parts)
            ],
        )
    )
    yield ""
    compared = [(row, name) for _, names in _all_names(parts) for name in names for row in rows(parts[name].figures)]
    if compared:
        yield "## Beside each other"
        yield ""
        yield (
            "What was measured of both sides: where mirror-connect is better, and what it costs. MirrorMaker 2 has its"
            " defaults."
        )
        yield ""
        yield from _markdown(
            Table(
                ("", "mirror-connect", "MirrorMaker 2", "mirror-connect is", "at commit"),
                [
                    (
                        row.what,
                        row.said(row.ours),
                        row.said(row.other),
                        row.verdict if row.better is not False else f"**{row.verdict}**",
                        _origin(parts[name], history),
                    )
                    for row, name in compared
                ],
            )
        )
        yield ""
    copied = throughput_figures(parts)
    if copied:
        yield f"![Records copied for each CPU second]({PICTURE.name})"
        yield ""
    for section in sections(parts):
        yield f"## {section.heading}"
        yield ""
        yield from _told(section, parts)
        yield ""
        yield from _origins(section.parts, parts, history)
        yield ""
        yield from _markdown(section.table)
        yield ""
        if section.heading == COPYING:
            yield from _details(copied)
    yield "## Where and when"
    yield ""
    yield from _markdown(
        Table(
            ("Part", "date (UTC)", "commit", "commits ago", "tree", "load before", "command"),
            [
                (
                    name,
                    part.date,
                    part.commit,
                    _age(part, history),
                    "dirty" if part.dirty else "clean" if part.commit != UNKNOWN else "",
                    _load(part),
                    f"`{part.command}`",
                )
                for name, part in parts.items()
            ],
        )
    )
    yield ""
    machines = {tuple(part.machine.items()) for part in parts.values()}
    for machine in sorted(machines):
        yield from _markdown(Table(("Machine", ""), list(machine)))
        yield ""
    yield (
        "`python -m benchmarks --help` lists switches; `--quick` shows all of it in some minutes and writes nothing."
        " `--render` writes this file anew from the stored figures, and marks what has become old."
    )


def how(part: str) -> dict[str, str]:
    """How a part is measured today: heading → text, to be kept with its figures."""
    return {
        heading: HOW[heading]
        for heading, name, _ in _SECTIONS
        if name == (THROUGHPUT if part.startswith(THROUGHPUT) else part)
    }


def _told(section: Section, parts: Mapping[str, Part]) -> Iterator[str]:
    """How its figures were measured when they were; one text if all parts have the same."""
    texts: dict[str, list[str]] = {}
    for name in section.parts:
        texts.setdefault(parts[name].how.get(section.heading, HOW[section.heading]), []).append(name)
    for number, (text, names) in enumerate(texts.items()):
        if number:
            yield ""
        yield text if len(texts) == 1 else f"{', '.join(name.removeprefix(THROUGHPUT) for name in names)}: {text}"


def _origins(names: Sequence[str], parts: Mapping[str, Part], history: History) -> Iterator[str]:
    """Of which commit a section is: one line if its parts agree."""
    told = {name: _origin(parts[name], history) for name in names}
    if len(set(told.values())) == 1:
        yield f"Measured at commit {next(iter(told.values()))}."
    else:
        yield (
            "Measured at: "
            + "; ".join(f"{name.removeprefix(THROUGHPUT)} {origin}" for name, origin in told.items())
            + "."
        )


def _origin(part: Part, history: History) -> str:
    """The commit, how long ago it was, and what is to be known of the figures."""
    age = history.ages.get(part.commit)
    plain = [] if age is None or age > OLD_COMMITS else [f"{age} commits ago"]
    return ", ".join((part.commit, *plain, *(f"**{mark}**" for mark in marks(part, history))))


def _age(part: Part, history: History) -> str:
    age = history.ages.get(part.commit)
    return "" if age is None else f"**{age}**" if age > OLD_COMMITS else str(age)


def _details(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "CPU seconds by process, and what the topics are like:"
    yield ""
    rows = [
        (
            f"{each['label']}: {each['side']}",
            ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in sorted(each["cpu_by_kind"].items())),
            ", ".join(f"{rate:,.0f}" for rate in each["by_round"]) if "by_round" in each else str(each["rounds"]),
            f"{each['records_per_batch']:,.0f}",
            f"{each['wire_bytes_per_record']:.0f} ({each['raw_bytes_per_record']:.0f})",
        )
        for each in figures
    ]
    yield from _markdown(
        Table(("", "CPU s", "rounds: records/CPU s of each", "records/batch", "bytes/record (uncompressed)"), rows)
    )
    yield ""


def _load(part: Part) -> str:
    return "" if part.load_before is None else f"{part.load_before:.1f}"


def _loud(aim: Aim) -> str:
    return aim.verdict if aim.met else f"**{aim.verdict}**"


def _markdown(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table.head)} |"
    yield f"| --- |{' ---: |' * (len(table.head) - 1)}"
    for row in table.rows:
        yield f"| {' | '.join(row)} |"
