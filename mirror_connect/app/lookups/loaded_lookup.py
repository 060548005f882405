"""A lookup that was read, or why it can't be used. Without Arrow, which most workers never import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class BadLookupError(Exception):
    """Why a lookup can't be used as it is. The text is the reason alone, in one line."""


@dataclass(frozen=True, slots=True)
class LoadedLookup:
    """`table`: of Arrow. `stamp`: equal as long as nothing has changed where it comes from."""

    table: Any
    stamp: object
