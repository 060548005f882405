"""What a command shows: tables, and the JSON that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mirror_connect.cli.rest.figures import plain

Row = Mapping[str, Any]
# Longer texts are folded before a column is left out.
_FOLDED: Final = 32


@dataclass(frozen=True, slots=True)
class Column:
    """`cell`: what a row has in it. `right`: for figures. `wide`: shown with `-o wide` alone. `spare`: left out where a
    terminal is too narrow.
    """

    title: str
    cell: Callable[[Row], str | Text]
    right: bool = False
    wide: bool = False
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A table. `empty`: the line instead of one without rows. `heading`: a line above. `wide`: with `-o wide` alone."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str
    heading: str = ""
    wide: bool = False

    def table(self, width: int, *, wide: bool) -> RenderableType:
        """For rich. `width`: what the terminal has."""
        if not self.rows:
            return Text(plain(self.empty))
        columns = self.columns if wide else self._fitting(width)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=column.right,
                # A name that is cut off can't be copied.
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(_text(column.cell(row)) for column in columns))
        return Group(Text(plain(self.heading), style="bold"), table) if self.heading else table

    def _fitting(self, width: int) -> Sequence[Column]:
        columns = [each for each in self.columns if not each.wide]
        widths = {each.title: self._width(each) for each in columns}
        for spare in [each for each in reversed(columns) if each.spare]:
            if sum(widths[each.title] + 2 for each in columns) - 2 <= width:
                break
            columns.remove(spare)
        return columns

    def _width(self, column: Column) -> int:
        longest = max(len(column.title), *(_text(column.cell(row)).cell_len for row in self.rows))
        return longest if column.right else min(longest, _FOLDED)


@dataclass(frozen=True, slots=True)
class View:
    """The answer to a command. `body`: for JSON and YAML, with REST's names. `wrong`: exit code 1. `lines`: below."""

    body: Any
    listings: Sequence[Listing]
    lines: Sequence[str | Text] = field(default=())
    wrong: bool = False

    def renderable(self, width: int, *, wide: bool) -> RenderableType:
        """For rich."""
        parts: list[RenderableType] = []
        for listing in self.listings:
            if listing.wide and not wide:
                continue
            parts += [Text("")] * bool(parts) + [listing.table(width, wide=wide)]
        if self.lines and parts:
            parts.append(Text(""))
        return Group(*parts, *map(_text, self.lines))


def _text(value: str | Text) -> Text:
    return value if isinstance(value, Text) else Text(plain(value))
