"""`response.http.headers.config`: headers that every answer of the main listeners gets, errors too.

Rules `[action] [header name]:[header value]`, comma separated; a rule with a comma needs quotes. Splits, checks and error
texts are Connect's (RestServerConfig, Jetty's StringUtil.csvSplit and HeaderFilter). Unlike Connect, a header that would
break every answer is refused at the start, not when the first answer is sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

from mirror_connect.connectors.config.table import Quote

ACTIONS: Final = ("set", "add", "setDate", "addDate")

_EXPECTED: Final = "'[action] [header name]:[header value]'"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# They mark where an answer ends: with another value a client could read one answer as two.
_FRAMING: Final = frozenset({"connection", "content-length", "transfer-encoding", "upgrade", "trailer"})


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header for every answer. `value` of a date: milliseconds from now. `adds`: keeps others of the same name."""

    name: str
    value: str
    adds: bool
    is_date: bool

    def text(self, now: float) -> str:
        """The header's value; `now` in seconds since the epoch."""
        return formatdate(now + int(self.value) / 1000, usegmt=True) if self.is_date else self.value


def header_rules(text: str) -> tuple[HeaderRule, ...]:
    """The rules of the setting; ValueError says what is wrong, in Connect's words."""
    return tuple(_rule(entry) for entry in _csv(text)) if text.strip() else ()


def valid_header_rules(name: str, value: Any, quote: Quote) -> str | None:
    """A validator of the setting, for its table. Unlike Connect's text, the error names the setting."""
    try:
        header_rules(value or "")
    except ValueError as error:
        return f"Invalid value {quote(value)} for configuration {name}: {error}"
    return None


def _rule(entry: str) -> HeaderRule:
    action, blank, header = _at_blank(entry)
    if not blank:
        raise ValueError(f"Invalid format of header config '{entry}'. Expected: {_EXPECTED}")
    if action.lower() not in {known.lower() for known in ACTIONS}:
        raise ValueError(f"Invalid header config action: '{action}'. Expected one of [{', '.join(ACTIONS)}]")
    # Java's split drops empty parts at the end.
    parts = re.sub(":+$", "", header.strip()).split(":")
    if len(parts) != 2:
        raise ValueError(
            f"Invalid format of header name and header value pair '{header}'. Expected: '[header name]:[header value]'"
        )
    name, _, value = header.partition(":")
    name, value = name.strip(), value.strip()
    if not name or re.search(r"\s", name):
        raise ValueError(f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace")
    _refuse_what_no_answer_can_carry(name, value)
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"[+-]?[0-9]{1,14}", value):
        raise ValueError(f"Invalid value '{value}' of header '{name}'. A date is given as milliseconds from now")
    return HeaderRule(name, value, action.lower().startswith("add"), is_date)


def _refuse_what_no_answer_can_carry(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"Invalid header name '{name}'. It holds a character that no header name may have")
    if name.lower() in _FRAMING:
        raise ValueError(f"Invalid header name '{name}'. The server sets it itself")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"Invalid value of header '{name}'. It holds a character that no header may have")


def _at_blank(entry: str) -> tuple[str, str, str]:
    found = re.split(r"(\s+)", entry.strip(), maxsplit=1)
    return (found[0], found[1], found[2]) if len(found) == 3 else (found[0], "", "")


def _csv(text: str) -> list[str]:
    """The entries, by the rules of Jetty's csvSplit: it knows quotes only at an entry's beginning and drops what follows."""
    entries: list[str] = []
    rest = text.lstrip()
    while rest:
        if rest.startswith('"'):
            # No `*+`: before Python 3.11.5 a possessive group finds too little.
            match = re.match(r'"((?>(?:[^"\\]|\\.)*))(\\?)(?:"|$)', rest, re.DOTALL)
            assert match is not None
            entries.append(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
            _, _, rest = rest[match.end() :].partition(",")
        else:
            entry, _, rest = rest.partition(",")
            entries.append(entry.rstrip())
        rest = rest.lstrip()
    return entries
