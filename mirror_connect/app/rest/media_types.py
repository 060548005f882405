"""Content-Type and Accept, parsed as strictly as the Jersey under Kafka Connect parses them, also about spaces.

Connect negotiates while it routes: after it knows path and method, before it checks the credentials. Only a malformed
content type is refused earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

# Everything is possessive or atomic, so that no header takes exponential time. Groups are never possessive: before
# Python 3.11.5 they find too little then.
_TOKEN: Final = r"[^\x00-\x20\x7f()<>@,;:\\\"/\[\]?={}]++"
_PARAMETERS: Final = rf'(?>(?:[ \t]*+;[ \t]*+(?>(?:{_TOKEN}=(?:{_TOKEN}|"(?>(?:[^"\\]|\\.)*)"))?))*)[ \t]*+'
_TYPE: Final = re.compile(rf"[ \t]*+({_TOKEN})/({_TOKEN})({_PARAMETERS})")
# A type without a subtype, `*` too, stands for all of its subtypes.
_ACCEPTED: Final = re.compile(rf"[ \t]*+({_TOKEN})(?>(?:/({_TOKEN}))?)({_PARAMETERS})")
_QUALITY: Final = re.compile(rf';[ \t]*+[qQ]=("?)({_TOKEN}|[^"]*)\1')
_WEIGHT: Final = re.compile(r"0|0?\.\d{1,3}|0\.|1|1\.0{0,3}", re.ASCII)


class BadMediaType(Exception):
    """The header is malformed."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A type or a pattern of types, in lower case, without parameters, which have no effect here."""

    type: str
    subtype: str

    def stands_for_json(self) -> bool:
        """Whether it is JSON, or a pattern that matches JSON."""
        return self.type == "*" or (self.type == "application" and self.subtype in ("*", "json"))

    def is_pattern(self) -> bool:
        """Whether it has a wildcard."""
        return "*" in (self.type, self.subtype)


def content_type(header: str) -> MediaType:
    """The type of a body; BadMediaType."""
    found = _TYPE.fullmatch(header)
    if found is None:
        raise BadMediaType
    return MediaType(found[1].lower(), found[2].lower())


def accepted(header: str) -> list[MediaType]:
    """The types that the client accepts, empty if it names none; BadMediaType.

    As in Connect, a type of weight 0 counts like any other, although it means that the client does not accept it.
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


async def negotiate(request: Request) -> None:
    """Raises the router's 415 if the content type is not JSON, and its 406 if the client does not accept JSON.

    BadMediaType for a malformed Accept.
    """
    carried = request.headers.get("content-type")
    if carried is not None and not content_type(carried).stands_for_json():
        raise HTTPException(415)
    wanted = accepted(",".join(request.headers.getlist("accept")))
    if wanted and not any(each.stands_for_json() for each in wanted):
        raise HTTPException(406)


def require_json(request: Request) -> None:
    """Raises 415 if a body has no content type or a pattern; only for routes that read a body."""
    carried = request.headers.get("content-type")
    if carried is None or content_type(carried).is_pattern():
        raise HTTPException(415)
