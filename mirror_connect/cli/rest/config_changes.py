"""What a new config changes of a connector's present one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rich.text import Text

from mirror_connect.cli.rest.config_command import shown_value
from mirror_connect.cli.rest.figures import plain

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """Of one property. None: it is not in the config. `repr` shows no value."""

    name: str
    old: str | None = field(repr=False)
    new: str | None = field(repr=False)

    def lines(self) -> Iterator[Text]:
        """`- topics = a` and `+ topics = b`. Of a secret the value is hidden."""
        for mark, style, value in (("-", "red", self.old), ("+", "green", self.new)):
            if value is not None:
                yield Text(plain(f"  {mark} {self.name} = {shown_value(self.name, value)}"), style=style)


def changes(old: Config, new: Config) -> list[Change]:
    """In the order of the new config; behind them what it lacks."""
    names = [*new, *(name for name in old if name not in new)]
    return [Change(each, old.get(each), new.get(each)) for each in names if old.get(each) != new.get(each)]
