"""Checks an mm2.properties file's clusters and flows: names, brokers, and flows that would copy in a circle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mirror_maker_rules import parsed_list
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.property_places import CLUSTERS, Level, likely_cluster, place_of
from mirror_connect.app.dedicated.topic_overlap import may_overlap
from mirror_connect.connectors.config.values import trim
from mirror_connect.connectors.mirror.settings import client_properties
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.connectors.wording import likely_name

_COMMENT: Final = re.compile(r"\s#")
# As in most guides, which write an arrow: `A→B` read as ISO-8859-1.
_ARROWS: Final = ("→", "→".encode().decode("iso-8859-1"))


def check_clusters(file: Mm2Properties) -> Iterator[Mm2Finding]:
    """Errors of the list `clusters` itself, and of `--clusters`."""
    values = file.resolved
    if CLUSTERS not in values:
        aliases = [name.removesuffix(".bootstrap.servers") for name in values if name.endswith(".bootstrap.servers")]
        example = ", ".join(aliases) or "A, B"
        yield file.error(FindingCode.CLUSTERS_MISSING, "", "clusters is missing", f"add clusters = {example}")
        return
    entries = parsed_list(values[CLUSTERS])
    if not entries:
        yield file.error(
            FindingCode.CLUSTERS_MISSING, CLUSTERS, "there is no cluster in it", "name two clusters or more"
        )
    elif "" in entries:
        text = "an entry is empty"
        yield file.error(
            FindingCode.CLUSTER_NAME_WRONG, CLUSTERS, text, "take out the comma that has nothing beside it"
        )
    for alias in file.clusters:
        if _COMMENT.search(alias):
            text = f"a # behind a value begins no comment, so a cluster is named “{alias}”"
            yield file.error(FindingCode.CLUSTER_NAME_WRONG, CLUSTERS, text, "put the comment on a line of its own")
    repeated = [alias for alias in file.clusters if entries.count(alias) > 1]
    if repeated:
        text = f"{', '.join(repeated)} {'is' if len(repeated) == 1 else 'are'} listed twice"
        yield file.warning(FindingCode.CLUSTER_REPEATED, CLUSTERS, text, "name each cluster once")
    for alias in file.only:
        if alias not in file.clusters:
            text = f"--clusters names {alias}, which is not in clusters"
            yield file.error(FindingCode.CLUSTER_UNKNOWN, CLUSTERS, text, _remedy(alias, file.clusters))


def check_flow_names(file: Mm2Properties) -> Iterator[Mm2Finding]:
    """Errors of properties of flows whose clusters are unknown."""
    if not file.clusters:
        return
    reported = set()
    for name in file.located.values:
        if any(arrow in name for arrow in _ARROWS) and "->" not in name:
            text = "an arrow makes no flow here, only the two characters -> do"
            yield file.error(FindingCode.CLUSTER_UNKNOWN, name, text, "write SOURCE->TARGET.PROPERTY")
            continue
        place = place_of(name, file.clusters)
        if place.level is not Level.UNKNOWN_FLOW or place.prefix in reported:
            continue
        reported.add(place.prefix)
        unknown = [alias for alias in place.aliases if alias not in file.clusters]
        if unknown:
            text = f"the cluster {unknown[0]} is not in clusters"
            yield file.error(FindingCode.CLUSTER_UNKNOWN, name, text, _remedy(unknown[0], file.clusters))
        else:
            text = "a cluster cannot be copied to itself"
            yield file.error(FindingCode.CLUSTER_UNKNOWN, name, text, "name two different clusters")


def check_brokers(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Errors for clusters of flows that nobody can connect to."""
    missing: dict[str, str] = {}
    for flow in flows:
        if not trim(flow.worker.get("bootstrap.servers", "")):
            missing.setdefault(flow.target, flow.name)
        if flow.enabled:
            config = next(iter(flow.connectors.values()))
            for kind in ("consumer", "admin"):
                if not trim(client_properties(config, "source", kind).get("bootstrap.servers", "")):
                    missing.setdefault(flow.source, flow.name)
    for alias, flow_name in missing.items():
        wanted = f"{alias}.bootstrap.servers"
        given = wanted in file.located.values
        enabled = f"{flow_name}.enabled"
        at = wanted if given else enabled if enabled in file.located.values else CLUSTERS
        text = f"{wanted} is {'empty' if given else 'missing'}, and the flow {flow_name} needs it"
        guess = None if given else _meant(wanted, file)
        line = None if guess is None else file.located.lines[guess]
        remedy = f"write {wanted} = HOST:PORT" if guess is None else f"rename {guess} on line {line}"
        yield file.error(FindingCode.BOOTSTRAP_MISSING, at, text, remedy)


def check_same_brokers(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Whether a flow leads from a cluster to itself: it copies its copies again, each time with one more prefix."""
    for flow in flows:
        if not flow.enabled:
            continue
        config = _resolved(file, flow)
        source = parsed_list(client_properties(config, "source", "consumer").get("bootstrap.servers", ""))
        target = parsed_list(client_properties(config, "target", "producer").get("bootstrap.servers", ""))
        both = [address for address in source if address and address in target]
        if not both:
            continue
        at = file.origin_in_connectors(flow.source, flow.target, "target.cluster.bootstrap.servers") or ""
        text = f"{flow.source} and {flow.target} have the same broker {both[0]}"
        remedy = f"correct the bootstrap.servers of {flow.source} or {flow.target}"
        if config.get("replication.policy.class", "").strip() == IDENTITY_POLICY:
            text = f"{text}: with this policy each record would be copied to where it is, for ever"
            yield file.error(FindingCode.ENDLESS_COPIES, at, text, remedy)
        else:
            text = f"{text}: if they are one cluster, {flow.name} copies its own copies again and again"
            yield file.warning(FindingCode.SAME_BROKERS, at, text, f"{remedy}, or name the topics in topics")


def _meant(wanted: str, file: Mm2Properties) -> str | None:
    """A property of a cluster that is not in `clusters`, and was probably meant to be this one."""
    _, _, ending = wanted.rpartition(".bootstrap")
    strange = [
        name
        for name in file.located.values
        if name.endswith(f".bootstrap{ending}") and likely_cluster(name, file.clusters) is not None
    ]
    return likely_name(wanted, strange)


def check_flows(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Whether there is anything to run, and whether it may share topics."""
    if not flows:
        here = f" to {', '.join(file.only)}" if file.only else ""
        source, target = (*file.clusters, "A", "B")[:2] if len(file.clusters) > 1 else ("A", "B")
        remedy = f"set {source}->{target}.enabled = true, with the source in front of the arrow"
        text = f"no flow{here} is enabled, and no heartbeats"
        at = next((name for name, value in file.resolved.items() if _almost_true(name, value)), CLUSTERS)
        if at != CLUSTERS:
            text, remedy = f"{text}: there are blanks around true", "take the blanks out"
        yield file.error(FindingCode.NO_FLOWS, at, text, remedy)
    elif not any(flow.enabled for flow in flows):
        flow = flows[0]
        text = "no flow is enabled, so only heartbeats are written"
        yield file.warning(
            FindingCode.ONLY_HEARTBEATS, CLUSTERS, text, f"set {flow.name}.enabled = true to copy topics"
        )
    yield from _shared_topics(file, flows)


def check_circles(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Errors for flows that keep the topics' names and lead in a circle: each record would be copied for ever."""
    keeping = {
        (flow.source, flow.target): _resolved(file, flow)
        for flow in flows
        if flow.enabled and _resolved(file, flow).get("replication.policy.class", "").strip() == IDENTITY_POLICY
    }
    for circle in _circles(list(keeping)):
        steps = list(zip(circle, (*circle[1:], circle[0]), strict=True))
        if not may_overlap([keeping[step] for step in steps]):
            continue
        names = " and ".join(f"{source}->{target}" for source, target in steps)
        origins = (file.origin_in_connectors(*step, "replication.policy.class") for step in steps)
        name = next((origin for origin in origins if origin is not None), "")
        text = f"with this policy {names} would copy each record in a circle for ever"
        remedy = (
            "disable one of them, give them lists of different names in topics, or leave the policy out, so that copies "
            "get the prefix of their source"
        )
        yield file.error(FindingCode.ENDLESS_COPIES, name, text, remedy)


def _almost_true(name: str, value: str) -> bool:
    """MirrorMaker takes `true ` for false where it looks for flows. Kafka's settings would be trimmed."""
    return "->" in name and name.endswith(".enabled") and value.lower() != "true" and trim(value).lower() == "true"


def _resolved(file: Mm2Properties, flow: Flow) -> Mapping[str, str]:
    return file.resolve(next(iter(flow.connectors.values())))


def _circles(steps: Sequence[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Each simple circle of the steps once, from its first cluster in their order; shorter ones first."""
    order = list(dict.fromkeys(alias for step in steps for alias in step))
    paths: list[tuple[str, ...]] = [(alias,) for alias in order]
    found = 0
    while paths and found < _MOST_CIRCLES:
        longer = []
        for path in paths:
            for source, target in steps:
                if source != path[-1]:
                    continue
                if target == path[0]:
                    found += 1
                    yield path
                elif target not in path and order.index(target) > order.index(path[0]):
                    longer.append((*path, target))
        paths = longer[:_MOST_PATHS]


# Twenty clusters that all copy to each other have more circles than anyone reads about.
_MOST_CIRCLES: Final = 20
_MOST_PATHS: Final = 2000


def _shared_topics(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Workers of several flows on one cluster need config topics of their own: their connectors have equal names."""
    users: dict[tuple[str, str], list[Flow]] = {}
    for flow in flows:
        users.setdefault((flow.target, flow.worker["config.storage.topic"]), []).append(flow)
    for (target, topic), sharing in users.items():
        if len(sharing) > 1:
            name = file.origin_in_worker(target, "config.storage.topic") or ""
            text = f"the workers of {', '.join(flow.name for flow in sharing)} share the topic {topic} on {target}"
            remedy = "leave it out: each overwrites the connectors of the others, which have the same names"
            yield file.warning(FindingCode.TOPIC_SHARED, name, text, remedy)


def _remedy(alias: str, clusters: Sequence[str]) -> str:
    guess = likely_name(alias, clusters)
    there = f"clusters has {', '.join(clusters)}"
    return f"did you mean {guess}? ({there})" if guess else there
