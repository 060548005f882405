"""What can go wrong with a local cluster, told in one line."""

from __future__ import annotations


class LocalError(Exception):
    """A cluster, tool or download failed; the text names it and says what to do."""


class NotInTime(LocalError):
    """A process or a cluster was not so far in time: a slow machine, or it hangs."""
