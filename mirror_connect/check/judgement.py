"""What is said of one property: the same, different, refused, or not to be judged here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mirror_connect.app.config.config_providers import has_reference
from mirror_connect.connectors.secrets import HIDDEN, is_secret, redact, secrets_of

# Names that the product's own list of secrets does not know: they are of other plugins, which are refused or ignored.
_SECRET_OF_OTHERS: Final = re.compile(r"passw|secret|token|credential|api.?key|private|user\.info|jaas", re.IGNORECASE)
_ALIASED: Final = ("transforms", "predicates")
_NEVER_SECRET: Final = (".class", ".converter", ".enable", ".enabled", ".location", ".ms", ".type", ".url")


class Verdict(StrEnum):
    """In the order of the table."""

    REFUSED = "refused"
    DIFFERENT = "different"
    NOT_JUDGED = "not judged"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one property by the name that a worker or connector sees. `text`: why; `instead`: what to do; both may be empty.

    `unread`: nobody reads a property of this name where it stands. `idle`: one that has an effect beside other properties of
    its connector, and they are not there.
    """

    name: str
    verdict: Verdict
    text: str = ""
    instead: str = ""
    unread: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A property in a file: its name there, its value, and its line (from 1 on), None if it has none.

    `literal`: the file has the value, and not only where it comes from.
    """

    written: str
    value: str | None = field(repr=False)
    line: int | None = None
    literal: bool = True


def shown(name: str, value: str | None) -> str | None:
    """The value for people: hidden if it may be secret, unless it is a reference to a config provider."""
    of_others = _SECRET_OF_OTHERS.search(_without_alias(name)) and not name.endswith(_NEVER_SECRET)
    if value is None or not (is_secret(name) or of_others):
        return value
    whole = value.strip()
    return value if has_reference(whole) and whole.startswith("${") and whole.endswith("}") else HIDDEN


def _without_alias(name: str) -> str:
    """Behind the alias of a transformation or predicate: `predicate` of transforms.private.predicate."""
    kind, _, rest = name.partition(".")
    _, dot, own = rest.partition(".")
    return own if kind in _ALIASED and dot else name


def without_secrets(text: str, config: Mapping[str, str | None]) -> str:
    """A text that may quote values of the config."""
    others = {value for name, value in config.items() if value and shown(name, value) == HIDDEN}
    return redact(text, secrets_of(config) | others)


def sentence(text: str) -> str:
    """With a capital letter and a full stop; an empty text stays empty."""
    if not text:
        return ""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
