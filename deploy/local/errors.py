"""Errors of local clusters, each with a text of one line."""

from __future__ import annotations


class LocalError(Exception):
    """A cluster, tool or download failed; the text names it and says what to do."""


class NotInTime(LocalError):
    """A process or cluster was not ready in time: it hangs, or the machine is slow."""
