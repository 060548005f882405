"""Whether several flows may copy one topic: by lists of plain names, and by how their expressions begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mirror_connect.connectors.config.values import LIST, parse
from mirror_connect.connectors.mirror.filters import TOPICS_DEFAULT, TOPICS_EXCLUDE_DEFAULT, NameFilter

# A dot means any character in an expression, but who writes `orders.v1` means the topic of this name.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_BEGINNING: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\[.\-])*")


def may_overlap(configs: Sequence[Mapping[str, str]]) -> bool:
    """Whether all these connectors may copy the same topic. True wherever that is not certain."""
    lists = [_topics(config) for config in configs]
    plain = [names for config, names in zip(configs, lists, strict=True) if not _of_user(config) and _are_plain(names)]
    if plain:
        # One list of plain names: nothing else can be copied by all.
        return any(all(_copies(each, name) for each in configs) for names in plain for name in names)
    lists = [[".*"] if _of_user(config) else names for config, names in zip(configs, lists, strict=True)]
    beginnings = [[_beginning(entry) for entry in names] for names in lists]
    return any(_fit(chosen) for chosen in _choices(beginnings))


def _of_user(config: Mapping[str, str]) -> bool:
    """Whether a user's class decides, which may accept anything."""
    return config.get("topic.filter.class", "").startswith("python:")


def _are_plain(names: Sequence[str]) -> bool:
    return all(map(_PLAIN_NAME.fullmatch, names))


def _topics(config: Mapping[str, str]) -> list[str]:
    text = config.get("topics")
    return TOPICS_DEFAULT if text is None else list(parse(text, LIST)[1])


def _copies(config: Mapping[str, str], name: str) -> bool:
    if _of_user(config):
        return True
    text = config.get("topics.exclude")
    excluded = TOPICS_EXCLUDE_DEFAULT if text is None else list(parse(text, LIST)[1])
    # A plain name stands for itself, also where its dots would match more.
    wanted = name in _topics(config) or NameFilter.compile("topics", _topics(config)).matches(name)
    return wanted and not NameFilter.compile("topics.exclude", excluded).matches(name)


def _beginning(entry: str) -> str:
    r"""The text with which all names begin that an expression matches: `orders\..*` gives `orders.`."""
    if "|" in entry or "(?" in entry:
        return ""
    found = _PLAIN_BEGINNING.match(entry)
    text = found[0] if found else ""
    if entry[len(text) : len(text) + 1] in ("?", "*", "{") and text:
        text = text[: -2 if text[-2:-1] == "\\" else -1]  # it may be missing
    return text.replace("\\", "")


def _choices(lists: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Pairs are enough: lists of which two have nothing in common have nothing in common."""
    if len(lists) == 1:
        yield from ((entry,) for entry in lists[0])
        return
    first, *others = lists
    for entry in first:
        if all(any(_fit((entry, other)) for other in entries) for entries in others):
            yield (entry,)


def _fit(beginnings: Sequence[str]) -> bool:
    shortest = min(beginnings, key=len)
    return all(beginning.startswith(shortest) for beginning in beginnings)
