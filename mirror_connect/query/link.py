"""What a query reads: the two clusters of a link, MirrorMaker's topics on the target, and the worker's REST interface.

Client properties hold passwords. So they are no options of Spark, whose plans show options. They come from a file, from a
connector's config, or with the object that Spark pickles. No `repr` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Protocol

from mirror_connect.query.errors import QueryError

ROLES: Final = ("source", "target")
ISOLATION: Final = "isolation.level"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
# Where a worker tells configs and states of all connectors.
STATUSES: Final = "/connectors?expand=info&expand=status"


class Rest(Protocol):
    """Reads from a Connect worker."""

    def get(self, path: str) -> Any:
        """The body of the answer; None if there is no such resource. QueryError."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a worker has answered already, by path."""

    bodies: Mapping[str, Any] = field(repr=False)

    def get(self, path: str) -> Any:
        """See Rest."""
        return self.bodies.get(path)


@dataclass(frozen=True, slots=True)
class QueryLink:
    """`properties`: a consumer's for each side. `unknown`: why a side has none.

    `ranges_topic`, `checkpoints_topic`: on the target; None if the source's alias isn't known.
    """

    properties: Mapping[str, Mapping[str, str]] = field(repr=False)
    unknown: Mapping[str, str]
    connector: str | None = None
    source_alias: str | None = None
    ranges_topic: str | None = None
    checkpoints_topic: str | None = None
    rest: Rest | None = None

    def client(self, role: str) -> Mapping[str, str]:
        """The properties of a side's consumer. QueryError says why there are none."""
        found = self.properties.get(role)
        if found is None:
            raise QueryError(self.unknown.get(role, f"the {role} cluster is not known"))
        return found

    def committed(self, role: str) -> bool:
        """Whether only committed records of this side are read."""
        return self.client(role).get(ISOLATION, "").lower() == READ_COMMITTED


def near_names(name: str, names: list[str]) -> str:
    """A hint at names like this one, as the end of a line."""
    near = get_close_matches(name, names, 3, 0.6) or [each for each in names if name in each][:3]
    return f"; near it there {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""
