"""Content-Type and Accept, read as the Jersey under Kafka Connect reads them: strictly, down to where blanks may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Possessive or atomic throughout: nothing is tried in two ways, whatever somebody sends. Groups are never possessive, as
# they find too little then before Python 3.11.5.
_TOKEN: Final = r"[^\x00-\x20\x7f()<>@,;:\\\"/\[\]?={}]++"
_PARAMETERS: Final = rf'(?>(?:[ \t]*+;[ \t]*+(?>(?:{_TOKEN}=(?:{_TOKEN}|"(?>(?:[^"\\]|\\.)*)"))?))*)[ \t]*+'
_TYPE: Final = re.compile(rf"[ \t]*+({_TOKEN})/({_TOKEN})({_PARAMETERS})")
# `*` alone, and any other word, stand for all of that type.
_ACCEPTED: Final = re.compile(rf"[ \t]*+({_TOKEN})(?>(?:/({_TOKEN}))?)({_PARAMETERS})")
_QUALITY: Final = re.compile(rf';[ \t]*+[qQ]=("?)({_TOKEN}|[^"]*)\1')
_WEIGHT: Final = re.compile(r"0|0?\.\d{1,3}|0\.|1|1\.0{0,3}", re.ASCII)


class BadMediaType(Exception):
    """The header can't be read."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A type or a pattern of types, in lower case; parameters mean nothing to anybody here."""

    type: str
    subtype: str

    def stands_for_json(self) -> bool:
        """Whether it is JSON or a pattern that JSON fits."""
        return self.type == "*" or (self.type == "application" and self.subtype in ("*", "json"))

    def is_pattern(self) -> bool:
        """Whether it leaves something open."""
        return "*" in (self.type, self.subtype)


def content_type(header: str) -> MediaType:
    """The type of a body; BadMediaType."""
    found = _TYPE.fullmatch(header)
    if found is None:
        raise BadMediaType
    return MediaType(found[1].lower(), found[2].lower())


def accepted(header: str) -> list[MediaType]:
    """The types that the sender of a request reads, none if it says nothing; BadMediaType.

    A type of weight 0, which means that it is not wanted, counts like any other: so it does in Connect.
    """
    return list(_accepted(header))


def _accepted(header: str) -> Iterator[MediaType]:
    at = 0
    while header[at:].strip(" \t"):
        found = _ACCEPTED.match(header, at)
        if found is None or header[found.end() : found.end() + 1] not in ("", ","):
            raise BadMediaType
        for _, weight in _QUALITY.findall(found[3]):
            if not _WEIGHT.fullmatch(weight):
                raise BadMediaType
        yield MediaType(found[1].lower(), (found[2] or "*").lower())
        at = found.end() + 1
