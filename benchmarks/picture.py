"""results.svg: how many records each side copies in one CPU second, plain bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from benchmarks.plan import PROFILES
from benchmarks.sides import LABELS, MM2, MM2_NO_SYNCS, MM2_TUNED, OURS

WIDTH: Final = 860
LABEL_WIDTH: Final = 260
BAR_WIDTH: Final = 420
BAR: Final = 18
GAP: Final = 6
GROUP: Final = 30
COLOURS: Final = {MM2: "#9aa0a6", MM2_NO_SYNCS: "#c4c7cc", MM2_TUNED: "#80868b", OURS: "#1a73e8"}


def bars(figures: Sequence[Mapping[str, Any]]) -> str:
    """The SVG text. Each profile has its own scale, as they differ a hundredfold."""
    parts: list[str] = []
    y = 34
    for profile in PROFILES:
        group = [each for each in figures if each["profile"] == profile.name]
        if not group:
            continue
        parts.append(_text(10, y, profile.label, weight="bold"))
        y += 12
        most = max(each["records_per_cpu_second"] for each in group)
        for each in group:
            length = max(1.0, BAR_WIDTH * each["records_per_cpu_second"] / most)
            parts.append(_text(LABEL_WIDTH - 8, y + 13, LABELS[each["side"]], anchor="end"))
            parts.append(
                f'<rect x="{LABEL_WIDTH}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2"'
                f' fill="{COLOURS[each["side"]]}"/>'
            )
            parts.append(_text(int(LABEL_WIDTH + length + 8), y + 13, f"{each['records_per_cpu_second']:,.0f}"))
            y += BAR + GAP
        y += GROUP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img"'
        ' aria-label="Records copied for each CPU second">'
    )
    ground = f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>'
    return "\n".join((head, ground, _text(10, 16, "Records copied for each CPU second"), *parts, "</svg>")) + "\n"


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="#202124">{escape(text)}</text>'
