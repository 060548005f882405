"""Draws docs/rooms.svg, the rooms with what imports what: `python -m docs.draw_rooms`.

Layers are those of .importlinter, so no arrow may lead upward. RuntimeError: one does, or a room is in no layer.
"""

from __future__ import annotations

import configparser
import html
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[1]
COMMAND: Final = "python -m docs.draw_rooms > docs/rooms.svg"
PACKAGE: Final = "mirror_connect"
# Pixels.
WIDTH: Final = 1120
ROW: Final = 58
BOX: Final = 34
GAP: Final = 26
LETTER: Final = 7.4
# More modules in a layer than so many are a number.
MOST_NAMED: Final = 3
COLOURS: Final = {
    "cli": "#6b7280",
    "query": "#0369a1",
    "check": "#be185d",
    "verify": "#7c3aed",
    "app": "#2563eb",
    "spark_jobs": "#ea580c",
    "kafka_io": "#0d9488",
    "connectors": "#b45309",
}


class Drawing:
    """Rooms as boxes, layer by layer."""

    def __init__(self) -> None:
        self.layers, members = _layers()
        self.arrows = _arrows(members)
        self._layer = {room: number for number, layer in enumerate(self.layers) for room in layer}

    def upward(self) -> list[tuple[str, str]]:
        """Imports that lead upward, or within a layer; there are none."""
        return [(one, other) for one, other in self.arrows if self._layer[one] >= self._layer[other]]

    def svg(self) -> str:
        """The drawing."""
        boxes, places = [], {}
        for number, layer in enumerate(self.layers):
            widths = [len(room) * LETTER + 24 for room in layer]
            left = (WIDTH - sum(widths) - GAP * (len(layer) - 1)) / 2
            for room, width in zip(layer, widths, strict=True):
                top = 20 + number * ROW
                places[room] = (left, top, width)
                colour = COLOURS[_package(room)]
                boxes.append(
                    f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{BOX}" rx="6" fill="white" '
                    f'stroke="{colour}" stroke-width="2"/>'
                    f'<text x="{left + width / 2:.0f}" y="{top + 22}" text-anchor="middle">{html.escape(room)}</text>'
                )
                left += width + GAP
        lines = []
        most = max(self.arrows.values())
        for (one, other), count in sorted(self.arrows.items()):
            (x1, y1, w1), (x2, y2, w2) = places[one], places[other]
            start, end = x1 + w1 / 2, x2 + w2 / 2
            colour = COLOURS[_package(one)]
            bend = (y2 - y1 - BOX) / 2
            lines.append(
                f'<path d="M{start:.0f} {y1 + BOX} C{start:.0f} {y1 + BOX + bend:.0f} {end:.0f} {y2 - bend:.0f} {end:.0f} '
                f'{y2 - 4}" stroke="{colour}" stroke-width="{0.7 + 2.3 * count / most:.1f}" fill="none" opacity="0.55" '
                f'marker-end="url(#arrow)"><title>{one} imports {other}: {count}</title></path>'
            )
        height = 20 + len(self.layers) * ROW
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            'font-size="13">\n'
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#374151"/></marker></defs>\n'
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n' + "\n".join((*lines, *boxes)) + "\n</svg>\n"
        )


def _layers() -> tuple[list[list[str]], dict[str, str]]:
    """The rooms from top to bottom, and the room of each name. The layers are those of .importlinter."""
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", "utf-8")
    inside: dict[str, list[list[str]]] = {}
    for section in config.sections():
        containers = config[section].get("containers", "").split()
        if containers:
            rows = config[section]["layers"].strip().splitlines()
            inside[containers[0]] = [[name.strip() for name in row.split("|")] for row in rows]
    layers: list[list[str]] = []
    members: dict[str, str] = {}
    for row in inside[PACKAGE]:
        columns = [_column(package, inside.get(f"{PACKAGE}.{package}"), members) for package in row]
        for at in range(max(map(len, columns))):
            layers.append([room for column in columns if at < len(column) for room in column[at]])
    return layers, members


def _column(package: str, layers: list[list[str]] | None, members: dict[str, str]) -> list[list[str]]:
    """A package's rooms, layer by layer. Modules of one layer that are in no room of their own are one box."""
    if layers is None:
        members[package] = package
        return [[package]]
    found = []
    for layer in layers:
        names = [f"{package}/{name}" for name in layer]
        rooms = [name for name in names if (ROOT / PACKAGE / name).is_dir()]
        members.update({room.replace("/", "."): room for room in rooms})
        modules = [name for name in names if name not in rooms]
        if modules:
            said = ", ".join(name.rpartition("/")[2] for name in modules)
            if len(modules) > MOST_NAMED:
                # Another layer may have as many, and a box is known by its text.
                said = f"{said.partition(',')[0]} and {len(modules) - 1} more"
            box = f"{package}: {said}"
            members.update({name.replace("/", "."): box for name in modules})
            rooms.append(box)
        found.append(rooms)
    return found


def _arrows(members: dict[str, str]) -> Counter[tuple[str, str]]:
    graph = grimp.build_graph(PACKAGE)
    arrows: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = _room_of(module, members), _room_of(imported, members)
            if one and other and one != other:
                arrows[one, other] += 1
    return arrows


def _room_of(module: str, members: dict[str, str]) -> str | None:
    """None for the first file of a package that has rooms: it only says what there is."""
    parts = module.split(".")[1:]
    return members.get(".".join(parts[:2])) or members.get(".".join(parts[:1]))


def _package(room: str) -> str:
    return re.split("[/:]", room)[0]


def document() -> str:
    """The drawing as text. RuntimeError: see the module."""
    drawing = Drawing()
    upward = drawing.upward()
    if upward:
        raise RuntimeError(f"imports that lead upward: {upward}")
    return drawing.svg()


if __name__ == "__main__":
    sys.stdout.write(document())
