"""Writes docs/guide/topologies.md, and for each topology its picture, mm2.properties and connectors: see COMMAND.

Which topics a cluster has in the end follows from the product's own replication policy.
"""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

ROOT: Final = Path(__file__).parents[1]
COMMAND: Final = "python -m docs.generate_topologies"
GUIDE: Final = "docs/guide"
TOPIC: Final = "orders"
# Names of one's own topics and of their copies.
TOPICS: Final = ".*orders"
# Pixels.
WIDE: Final = 190
HIGH: Final = 100
BOX: Final = (110, 40)
EDGE: Final = 30
# How far two arrows between the same clusters are apart.
APART: Final = 7


@dataclass(frozen=True)
class Topology:
    """Clusters with their places in the picture (column, row), flows, and what is worth knowing."""

    title: str
    use: str
    clusters: dict[str, tuple[float, float]]
    flows: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    # Clusters whose topics the page lists; all if empty.
    shown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The folder of its files."""
        return re.sub(r"\W+", "-", self.title.lower())

    def topics(self) -> dict[str, list[str]]:
        """Cluster → its topics, after each cluster had a topic TOPIC that was written to."""
        policy = DefaultReplicationPolicy()
        found = {cluster: {TOPIC} for cluster in self.clusters}
        grown = True
        while grown:
            grown = False
            for source, target in self.flows:
                copies = {
                    policy.remote_topic(source, each) for each in found[source] if not policy.is_cycle(each, target)
                }
                grown |= not copies <= found[target]
                found[target] |= copies
        return {cluster: sorted(names, key=lambda name: (name.count("."), name)) for cluster, names in found.items()}

    # Files.

    def mm2_properties(self) -> str:
        """For dedicated mode."""
        lines = [f"clusters = {', '.join(self.clusters)}"]
        lines += [f"{cluster}.bootstrap.servers = {_address(cluster)}" for cluster in self.clusters]
        lines += ["", *(f"{source}->{target}.enabled = true" for source, target in self.flows)]
        lines += ["", f"topics = {TOPICS}", "replication.factor = -1", "sync.group.offsets.enabled = true"]
        return "\n".join(lines) + "\n"

    def connectors(self) -> dict[str, str]:
        """File name → config of the source connector, one for each flow."""
        return {f"{source}-to-{target}.json": _connector(source, target) for source, target in self.flows}

    def svg(self) -> str:
        """The picture."""
        shapes = [self._arrow(source, target) for source, target in self.flows]
        for cluster, place in self.clusters.items():
            x, y = _center(place)
            shapes.append(
                f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="6" '
                f'fill="white" stroke="#2563eb" stroke-width="2"/>'
                f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{html.escape(cluster)}</text>'
            )
        columns, rows = (max(place[axis] for place in self.clusters.values()) for axis in (0, 1))
        width, height = columns * WIDE + BOX[0] + 2 * EDGE, rows * HIGH + BOX[1] + 2 * EDGE
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" font-family="sans-serif" font-size="14">\n'
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#374151"/></marker></defs>\n'
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>\n' + "\n".join(shapes) + "\n</svg>\n"
        )

    def _arrow(self, source: str, target: str) -> str:
        """From edge to edge of the boxes; one of two that lead back and forth is moved to its side."""
        (x1, y1), (x2, y2) = _center(self.clusters[source]), _center(self.clusters[target])
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        along = (x2 - x1) / length, (y2 - y1) / length
        apart = APART if (target, source) in self.flows else 0
        aside = -along[1] * apart, along[0] * apart
        near, far = _reach(along, aside) + 2, length - _reach((-along[0], -along[1]), aside) - 4
        (sx, sy), (tx, ty) = [(x1 + along[0] * at + aside[0], y1 + along[1] * at + aside[1]) for at in (near, far)]
        return (
            f'<path d="M{sx:.0f} {sy:.0f} L{tx:.0f} {ty:.0f}" stroke="#374151" stroke-width="1.5" fill="none" '
            f'marker-end="url(#arrow)"><title>{source} to {target}</title></path>'
        )

    # Page.

    def section(self) -> str:
        """Its part of the page."""
        found = self.topics()
        links = ", ".join(f"[{name}](topologies/{self.name}/{name})" for name in self.connectors())
        parts = [f"## {self.title}", self.use, f"![{self.title}](topologies/{self.name}/picture.svg)"]
        rows = [
            f"| {each} | {', '.join(f'`{name}`' for name in found[each])} |" for each in self.shown or self.clusters
        ]
        parts.append("\n".join(["| cluster | topics of orders |", "| --- | --- |", *rows]))
        parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append(f"[mm2.properties](topologies/{self.name}/mm2.properties):")
        parts.append(f"```properties\n{self.mm2_properties()}```")
        parts.append(f"Connectors: {links}.")
        return "\n\n".join(parts)


def _address(cluster: str) -> str:
    return f"{cluster.lower()}-kafka:9092"


def _connector(source: str, target: str) -> str:
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "2",
        "source.cluster.alias": source,
        "source.cluster.bootstrap.servers": _address(source),
        "target.cluster.alias": target,
        "target.cluster.bootstrap.servers": _address(target),
        "topics": TOPICS,
        "replication.factor": "-1",
    }
    return json.dumps(config, indent=2) + "\n"


def _reach(along: tuple[float, float], aside: tuple[float, float]) -> float:
    """How far a line goes inside of a box that begins beside its center."""
    sides = [axis for axis in (0, 1) if abs(along[axis]) > 1e-9]
    return min((math.copysign(BOX[axis] / 2, along[axis]) - aside[axis]) / along[axis] for axis in sides)


def _center(place: tuple[float, float]) -> tuple[float, float]:
    return EDGE + BOX[0] / 2 + place[0] * WIDE, EDGE + BOX[1] / 2 + place[1] * HIGH


TOPOLOGIES: Final = (
    Topology(
        "Active/passive",
        "One cluster is in use, and the other one has a copy of it, to [fail over](failover.md) to.",
        {"primary": (0, 0), "secondary": (1, 0)},
        (("primary", "secondary"),),
        (
            "Run the worker near `secondary`: a producer suffers more from a slow link than a consumer.",
            "To fail back you need the flow in the other direction, at least for a while.",
        ),
    ),
    Topology(
        "Active/active",
        "Both clusters are written to. Each one has the records of both.",
        {"west": (0, 0), "east": (1, 0)},
        (("west", "east"), ("east", "west")),
        (
            "Consumers read both topics of their cluster, by the pattern `^((west|east)\\.)?orders$`.",
            "A copy is not copied back: `west.orders` ends on east.",
            "A group that reads on both clusters at once reads everything twice.",
        ),
    ),
    Topology(
        "Aggregation",
        "Several clusters, and one that has the records of all.",
        {"A": (0, 0), "B": (0, 1), "C": (0, 2), "K": (1, 1)},
        (("A", "K"), ("B", "K"), ("C", "K")),
        ("On `K` the prefix of a topic says where its records come from.",),
    ),
    Topology(
        "Fan-out",
        "One cluster, and several that have a copy of it.",
        {"K": (0, 1), "A": (1, 0), "B": (1, 1), "C": (1, 2)},
        (("K", "A"), ("K", "B"), ("K", "C")),
        (
            "One worker can run all three flows. Its `bootstrap.servers` is one of the targets.",
            "With Kafka Connect, each target needs a worker of its own.",
        ),
    ),
    Topology(
        "Forwarding",
        "Each cluster passes on what it has got: A to B, B to C, C to D.",
        {"A": (0, 0), "B": (1, 0), "C": (2, 0), "D": (3, 0)},
        (("A", "B"), ("B", "C"), ("C", "D")),
        (
            "`topics` has to match copies, too: `orders` alone would stay on B.",
            "Each hop adds its alias in front.",
        ),
    ),
    Topology(
        "XDCR",
        "Three locations with two clusters each: active/active inside, and one cluster of each connects the locations.",
        {
            "west-1": (0, 1),
            "west-2": (0, 0),
            "east-1": (2, 1),
            "east-2": (2, 0),
            "north-1": (1, 2),
            "north-2": (1, 3),
        },
        (
            ("west-1", "west-2"),
            ("west-2", "west-1"),
            ("east-1", "east-2"),
            ("east-2", "east-1"),
            ("north-1", "north-2"),
            ("north-2", "north-1"),
            ("west-1", "east-1"),
            ("west-1", "north-1"),
            ("east-1", "west-1"),
            ("east-1", "north-1"),
            ("north-1", "west-1"),
            ("north-1", "east-1"),
        ),
        (
            "Records arrive by more than one way, because each location forwards to the others. "
            "A consumer therefore names its topics, and uses no pattern for all.",
            "To copy nothing twice, give the flows between locations `topics` without copies of other locations. "
            "For example: `west-1->east-1.topics = orders,west-2\\\\.orders`.",
        ),
        shown=("west-2",),
    ),
)

INTRODUCTION: Final = f"""# Topologies

Which clusters copy to which. Each topology has a picture, the topics that result, a file for dedicated mode, and
connectors for a worker. Here each cluster has a topic `{TOPIC}` of its own.

A copy's name is the alias of its source, a dot, and the name of the topic. A topic is never copied to a cluster where
it has been, so no shape makes records go in a circle.
With `IdentityReplicationPolicy` names stay the same, and that protection is lost: use it only where no records come back.

**With [dedicated mode](../dedicated.md)**, one process runs the whole file: `bin/connect-mirror-maker.sh mm2.properties`.
In several locations run one process near each target, and say which clusters are near: `--clusters west-1 west-2`.

**With a worker**, each flow is a source connector. Copy the folder of a topology, set the addresses, and create all of
its connectors:

```sh
for file in *.json; do
  curl -X PUT -H 'Content-Type: application/json' --data @"$file" \\
       http://localhost:8083/connectors/"$(basename "$file" .json)"/config
done
```

A `replication.factor` of -1 is the default of the target's brokers. Groups need a checkpoint connector for each flow as
well, and heartbeats a heartbeat connector. These take the same aliases and addresses.
[deploy/sample/](../../deploy/sample/) has one of each.

One worker can copy to several clusters: each connector's data and source offsets go to [its
target](../compatibility.md#data). The worker's own topics are in its own cluster.

`make docs` makes this page and its files from `docs/generate_topologies.py`.
"""


def files() -> dict[str, str]:
    """Path below the repository → what it has to contain."""
    found = {
        f"{GUIDE}/topologies.md": "\n\n".join((INTRODUCTION.rstrip(), *(each.section() for each in TOPOLOGIES))) + "\n"
    }
    for each in TOPOLOGIES:
        folder = f"{GUIDE}/topologies/{each.name}"
        found |= {f"{folder}/picture.svg": each.svg(), f"{folder}/mm2.properties": each.mm2_properties()}
        found |= {f"{folder}/{name}": text for name, text in each.connectors().items()}
    return found


if __name__ == "__main__":
    for name, text in files().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, "utf-8")
