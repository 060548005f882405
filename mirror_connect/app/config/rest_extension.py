"""The class of `rest.extension.classes` that there is: Connect's Basic authentication (rest/basic_auth.py)."""

from __future__ import annotations

from typing import Any, Final

from mirror_connect.connectors.config.table import Quote

EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def known_extensions(name: str, value: Any, quote: Quote) -> str | None:
    """Validator: another class is refused, as it may be what keeps people out. Its simple name is enough."""
    known = (EXTENSION, EXTENSION.rpartition(".")[2])
    unknown = next((each for each in value or () if each not in known), None)
    if unknown is None:
        return None
    return f"Invalid value {quote(unknown)} for configuration {name}: the only known class is {EXTENSION}"
