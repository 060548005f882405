"""The names of config providers in a worker's properties: `config.providers` and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping


def provider_aliases(properties: Mapping[str, str]) -> list[str]:
    """The aliases in `config.providers`."""
    return list(filter(None, re.split(r"\s*,\s*", properties.get("config.providers", "").strip())))


def providers_without_class(properties: Mapping[str, str]) -> list[str]:
    """The aliases in `config.providers` whose class isn't named: they give no values."""
    return [
        alias
        for alias in provider_aliases(properties)
        if not properties.get(f"config.providers.{alias}.class", "").strip()
    ]
