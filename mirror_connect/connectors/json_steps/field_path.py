"""Paths to nested fields as `field.syntax.version=V2` has them: `a.b`, and backticks around names that have dots."""

from __future__ import annotations


class WrongPath(Exception):
    """A path has a backtick without its partner; the text is Kafka's."""


def path_of(text: str, version: str) -> tuple[str, ...]:
    """The names of a path. `version`: V1 or V2, in any case. WrongPath."""
    if version.upper() == "V1":
        return (text,)
    names: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            name, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            name, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        names.append(name)
    if text.endswith("."):
        names.append("")
    return tuple(names)


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """The name in backticks that begins here, and where the next one begins."""
    name, start = "", begin + 1
    at = start
    while True:
        at = text.find("`", at)
        last = at == len(text) - 1
        if at < 0 or (last and text[at - 1] == "\\"):
            raise WrongPath(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position "
                f"{begin} to escape it"
            )
        if last:
            return name + text[start:at], at + 1
        if text[at + 1] != ".":
            at += 1
        elif text[at - 1] == "\\":
            name += text[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + text[start:at], at + 2
