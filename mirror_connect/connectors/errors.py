"""Errors that all rooms raise: bad settings, unreachable clusters, missing rights, leases that are over."""

from __future__ import annotations

from typing import Final


class ConfigError(Exception):
    """A setting has a wrong value. The text is one line for the user, worded as Kafka's ConfigException.

    `value` is never put into the text of a secret setting: pass None and it is left out.
    """

    def __init__(self, name: str, value: str | None, problem: str) -> None:
        self.name = name
        self.value = value
        self.problem = problem
        shown = f"Invalid value {value} for configuration {name}" if value is not None else f"Invalid {name}"
        super().__init__(f"{shown}: {problem}")


class ClusterUnreachable(Exception):
    """No broker of a cluster answered; the text names the addresses tried and the reason.

    `what`, `cause`, `advice`: the parts of the text, if it has them, so that no code parses it.
    """

    def __init__(self, text: str, *, what: str = "", cause: str = "", advice: str = "") -> None:
        super().__init__(text)
        self.what = what
        self.cause = cause
        self.advice = advice


# What to do about it; for every place that says so.
ADDRESS_ADVICE: Final = "Correct the host, or make its name known to the worker's machine"


class AddressUnknown(ClusterUnreachable):
    """No name in bootstrap.servers has an address: probably a wrong setting, not an unreachable cluster."""


class NotAuthorized(Exception):
    """The cluster refused credentials or a right; the text names the cluster and the mechanism or right."""


class LeaseOver(ClusterUnreachable):
    """This worker must not write any more because another one may lead by now. Nothing was written."""


class OutcomeUnknown(ClusterUnreachable):
    """The time for a write ended before its acknowledgement. It may have been written or not."""


class GroupRefusedError(Exception):
    """The group can't be joined as things are; the text names group.id, the reason and what to do."""
