"""Numbers with their noun, as people say them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`: of nouns whose plural ends in s."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
