"""Errors that carry their meaning from where they are raised to whoever shows them."""

from __future__ import annotations


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
    """No broker of a cluster answered; the text names the addresses tried and the reason."""


class AddressUnknown(ClusterUnreachable):
    """No name in bootstrap.servers has an address: a mistake in the setting rather than a cluster that is away."""


class NotAuthorized(Exception):
    """The cluster refused credentials or a right; the text names the cluster and the mechanism or right."""


class LeaseOver(ClusterUnreachable):
    """This worker may write no more, as another may lead by now. What was to be written was not written."""


class OutcomeUnknown(ClusterUnreachable):
    """The time for a write was over before its acknowledgement was there: it may have been written or not."""
