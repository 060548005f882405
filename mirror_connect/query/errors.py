"""Why a query can't be answered."""

from __future__ import annotations


class QueryError(Exception):
    """The text is one line for the user: it names the thing, the value and what to do."""
