"""Checks of single settings, each with the text that Kafka's own validator of that name gives."""

from __future__ import annotations

import unicodedata
from typing import Any

from mirror_connect.connectors.config.table import Quote, Validator
from mirror_connect.connectors.user_code.known_classes import KNOWN_CLASSES
from mirror_connect.connectors.user_code.user_class import is_user_class


def _invalid(name: str, value: object, quote: Quote, problem: str) -> str:
    return f"Invalid value {quote(value)} for configuration {name}: {problem}"


def between(low: float, high: float | None = None) -> Validator:
    """ConfigDef.Range: both ends included; bounds are written as given (`0.5`, `1`)."""

    def check(name: str, value: Any, quote: Quote) -> str | None:
        if value is None:
            return _invalid(name, value, quote, "Value must be non-null")
        if value < low:
            return _invalid(name, value, quote, f"Value must be at least {low}")
        if high is not None and value > high:
            return _invalid(name, value, quote, f"Value must be no more than {high}")
        return None

    return check


def unset_or(validator: Validator) -> Validator:
    """Accepts null, and checks anything else."""
    return lambda name, value, quote: None if value is None else validator(name, value, quote)


def one_of(*values: str) -> Validator:
    """ConfigDef.ValidString."""

    def check(name: str, value: Any, quote: Quote) -> str | None:
        if value in values:
            return None
        return _invalid(name, value, quote, f"String must be one of: {', '.join(values)}")

    return check


def one_of_in_any_case(*values: str) -> Validator:
    """ConfigDef.CaseInsensitiveValidString; `values` in upper case, in the order of Java's text."""

    def check(name: str, value: Any, quote: Quote) -> str | None:
        if isinstance(value, str) and value.upper() in values:
            return None
        return _invalid(name, value, quote, f"String must be one of (case insensitive): {', '.join(values)}")

    return check


def distinct(*allowed: str, empty: bool = True) -> Validator:
    """ConfigDef.ValidList: no null, no empty and no repeated entry; with `allowed`, only these."""

    def check(name: str, value: Any, quote: Quote) -> str | None:
        if value is None:
            return f"Configuration '{name}' values must not be null."
        if not value and not empty:
            choices = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {choices}"
        if len(set(value)) != len(value):
            return f"Configuration '{name}' values must not be duplicated."
        for entry in value:
            if entry == "":
                return f"Configuration '{name}' values must not be empty."
            if allowed and entry not in allowed:
                return _invalid(name, entry, quote, f"String must be one of: {', '.join(allowed)}")
        return None

    return check


def aliases(name: str, value: Any, quote: Quote) -> str | None:
    """Checks aliases of transforms, predicates and topic groups: no duplicates."""
    if value is None:
        return not_null(name, value, quote)
    if len(set(value)) != len(value):
        return _invalid(name, value, quote, "Duplicate alias provided.")
    return None


def not_null(name: str, value: Any, quote: Quote) -> str | None:
    """ConfigDef.NonNullValidator."""
    return _invalid(name, value, quote, "entry must be non null") if value is None else None


def not_empty(name: str, value: Any, quote: Quote) -> str | None:
    """ConfigDef.NonEmptyString."""
    return _invalid(name, value, quote, "String must be non-empty") if value == "" else None


def plain_name(name: str, value: Any, quote: Quote) -> str | None:
    """ConfigDef.NonEmptyStringWithoutControlChars. It accepts null, which is reported as missing."""
    if value is None:
        return None
    if value == "":
        return _invalid(name, value, quote, "String may not be empty")
    controls = [str(ord(char)) for char in value if unicodedata.category(char) == "Cc"]
    if controls:
        problem = f"String may not contain control sequences but had the following ASCII chars: {', '.join(controls)}"
        return _invalid(name, value, quote, problem)
    return None


def stands_for(interface: str) -> Validator:
    """A class must implement the interface. Null is accepted, and so is a user's class, which is checked elsewhere."""

    def check(_name: str, value: Any, quote: Quote) -> str | None:
        if value is None or interface in KNOWN_CLASSES.get(value, ()) or is_user_class(value):
            return None
        return f"Class class {quote(value)} does not implement the {interface} interface"

    return check
