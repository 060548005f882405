"""Warns of properties in an mm2.properties file that have no effect: unknown names, wrong places, and repeated ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirror_connect.app.config.worker_keys import likely_storage_name
from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.property_places import (
    Level,
    Place,
    better_place,
    has_effect,
    likely_cluster,
    likely_place,
    place_of,
    successor_place,
)
from mirror_connect.connectors.wording import likely_name

_GUESSES = 50  # a guess takes some milliseconds


def check_names(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """A warning for each property that is read nowhere, or not where it stands."""
    enabled = [flow.name for flow in flows if flow.enabled]
    targets = list(dict.fromkeys(flow.target for flow in flows))
    guesses = 0
    for name in file.located.values:
        place = place_of(name, file.clusters)
        if place.level in (Level.TOP, Level.CLUSTER) and (likely := likely_storage_name(place.name)) is not None:
            text = "it is taken for a setting of the topic, which brokers refuse if they do not know it"
            yield file.warning(FindingCode.NAME_UNKNOWN, name, text, f"did you mean {place.prefix}{likely}?")
            continue
        if place.level is Level.UNKNOWN_FLOW or has_effect(place):
            continue
        if place.level is Level.CLUSTER:
            enabled_here = [
                flow.name for flow in flows if flow.enabled and place.aliases[0] in (flow.source, flow.target)
            ]
            better = better_place(place, targets, enabled_here)
        elif place.level is Level.FLOW:
            better = better_place(place, [place.aliases[1]], [place.prefix.removesuffix(".")])
        else:
            better = better_place(place, targets, enabled)
        if better is not None:
            yield file.warning(
                FindingCode.NAME_WITHOUT_EFFECT, name, f"it has no effect {_where(place)}", f"write {better}"
            )
            continue
        guesses += 1
        yield _unknown(file, place, guess=guesses <= _GUESSES)


def check_repeated(file: Mm2Properties) -> Iterator[Mm2Finding]:
    """A warning for each property that stands several times in the file."""
    for name, lines in file.located.repeated.items():
        others = ", ".join(map(str, lines[:-1]))
        text = f"it is set on line{'s' if len(lines) > 2 else ''} {others}, too, and only the last one counts"
        yield file.warning(FindingCode.PROPERTY_REPEATED, name, text, "take out the others")


def _unknown(file: Mm2Properties, place: Place, *, guess: bool) -> Mm2Finding:
    name = place.prefix + place.name
    if place.level is Level.TOP and (found := likely_cluster(name, file.clusters)) is not None:
        alias, rest = found
        meant = likely_name(alias, file.clusters)
        remedy = f"did you mean {meant}.{rest}?" if meant else f"clusters has {', '.join(file.clusters)}"
        return file.warning(
            FindingCode.NAME_UNKNOWN, name, f"it has no effect, because {alias} is not in clusters", remedy
        )
    if (replaced_by := successor_place(place)) is not None:
        text = "a name of earlier releases of Kafka, so it has no effect"
        return file.warning(FindingCode.NAME_UNKNOWN, name, text, f"write {replaced_by}")
    likely = likely_place(place) if guess else None
    remedy = f"did you mean {likely}?" if likely else ""
    return file.warning(FindingCode.NAME_UNKNOWN, name, "unknown property, it has no effect", remedy)


def _where(place: Place) -> str:
    return {Level.TOP: "at the top level", Level.CLUSTER: "for a cluster", Level.FLOW: "for a flow"}[place.level]
