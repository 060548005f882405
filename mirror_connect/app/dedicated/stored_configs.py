"""How the stored configs of a flow's connectors differ from those of this node's file, as a line for people.

Every node of a flow has a file. The leader's is in force. A node with another file must not go unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.connectors import DEFINITIONS

# More names than so many are a number: a line about a whole new file helps nobody.
_MOST_NAMES: Final = 12

Stored = Mapping[str, Mapping[str, str | None]]


def different_connectors(flow: Flow, stored: Stored) -> dict[str, frozenset[str]]:
    """Connector → names of its properties that differ, of all connectors whose stored config is not the file's."""
    found = {}
    for name, wanted in flow.connectors.items():
        present = set_values(stored[name]) if name in stored else {}
        names = frozenset(key for key, _ in present.items() ^ wanted.items())
        if names:
            found[name] = names
    return found


def superfluous_connectors(flow: Flow, stored: Stored) -> list[str]:
    """Stored connectors that a flow may have, and this one doesn't: an earlier file had them."""
    return [each.simple_name for each in DEFINITIONS if each.simple_name in stored.keys() - flow.connectors.keys()]


def leading_line(flow: Flow, stored: Stored, node: str) -> str | None:
    """For the node that leads, before it writes its configs; None if no connector that exists has another config."""
    differing = {name: keys for name, keys in different_connectors(flow, stored).items() if name in stored}
    if not differing:
        return None
    return (
        f"Flow {flow.name}: another file configured the stored connectors, with other values of {_names(differing)}. "
        f"This node ({node}) leads the group: the config of its file is in force now. Give all nodes the same file"
    )


def standby_line(flow: Flow, stored: Stored, leader: str, path: str) -> str | None:
    """For a node that stands by; None if the leader runs what this node's file says."""
    differing = different_connectors(flow, stored)
    if not differing:
        return None
    return (
        f"Flow {flow.name}: {path} of this node has other values of {_names(differing)} than the connectors that run. "
        f"The config of the leader ({leader}) is in force. Give all nodes the same file"
    )


def _names(differing: Mapping[str, frozenset[str]]) -> str:
    """The properties without their values, which may be secret."""
    names = sorted(frozenset().union(*differing.values()))
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
