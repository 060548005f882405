"""What connectors say alike of a filter that accepts nothing: which setting it is, of how many, why each is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.user_code.bounded_match import shortened
from mirror_connect.connectors.user_code.user_class import is_user_class

_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class UselessFilter:
    """A filter as it is set, and how much there is. `noun`: of what ("topic"); `cluster`: where; `so`: what follows."""

    named: str
    hint: str
    noun: str
    count: int
    cluster: str
    so: str

    @classmethod
    def of(cls, settings: Settings, noun: str, count: int, so: str) -> UselessFilter | None:
        """By Kafka's settings for that; None where theirs is empty, and no class of the user's decides."""
        setting, class_setting = f"{noun}s", f"{noun}.filter.class"
        cluster = f"source cluster {settings.text('source.cluster.alias')}"
        filter_class = settings.originals.get(class_setting)
        if is_user_class(filter_class):
            return cls(f"{class_setting}={filter_class}", "", noun, count, cluster, so)
        entries = settings.texts(setting)
        if not entries:
            return None
        hint = f"; names and expressions stand for whole {noun} names"
        return cls(f"{setting}={shortened(','.join(entries), _LONGEST)}", hint, noun, count, cluster, so)

    def matches_none(self) -> str:
        """Also where there is nothing to match."""
        if not self.count:
            return f"{self.cluster} has no {self.noun} that this login may see, so {self.so}"
        return f"{self.named} matches none of the {self._counted} of {self.cluster}, so {self.so}{self.hint}"

    def leaves_all_out(self, matching: int, left_out: Mapping[str, int]) -> str:
        """`left_out`: why → how many."""
        why = ", ".join(f"{number} by {reason}" for reason, number in left_out.items() if number)
        matches = f"{self.named} matches {matching} of the {self._counted} of {self.cluster}"
        return f"{matches}, but all of them are left out ({why}), so {self.so}"

    @property
    def _counted(self) -> str:
        return f"{self.count} {self.noun}{'s' if self.count > 1 else ''}"
