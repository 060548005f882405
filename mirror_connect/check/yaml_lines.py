"""YAML whose members know their lines, as the nodes of json_lines.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import yaml

from mirror_connect.check.json_lines import Node

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"true", "yes", "on", "y"})
# What an alias names is a node again wherever it stands. So ten lines can stand for more nodes than a memory holds.
_MOST_NODES: Final = 1_000_000


def read_yaml(text: str) -> list[Node]:
    """Each document of the text. ValueError with the line, but without the text, which may hold passwords."""
    try:
        return list(_documents(text))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ValueError(f"it is not valid YAML: {error.problem} on line {line}") from None
    except yaml.YAMLError:
        raise ValueError("it is not valid YAML: it has characters that are not allowed") from None
    except _TooMany:
        raise ValueError(f"its aliases make more than {_MOST_NODES:,} values of it; write these out") from None
    except RecursionError:
        raise ValueError("it is not valid YAML: it is nested too deeply") from None


class _TooMany(Exception):
    """There are more nodes than _MOST_NODES."""


def _documents(text: str) -> Iterator[Node]:
    left = count(_MOST_NODES, -1)
    for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if document is not None:
            yield _node(document, _line(document), left)


def _node(node: yaml.Node, line: int, left: Iterator[int]) -> Node:
    if next(left) <= 0:
        raise _TooMany
    if isinstance(node, yaml.MappingNode):
        others = [key for key, _ in node.value if not isinstance(key, yaml.ScalarNode)]
        if others:
            raise ValueError(f"a name must be text, on line {_line(others[0])}")
        return Node({key.value: _node(value, _line(key), left) for key, value in node.value}, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, _line(item), left) for item in node.value], line)
    if node.tag == f"{_TAG}null":
        return Node(None, line)
    if node.tag == f"{_TAG}bool":
        return Node("true" if node.value.lower() in _TRUE else "false", line)
    return Node(node.value, line)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
