"""What a connector part may say to the herder, and what every part is to the rest of the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PartHost(Protocol):
    """The herder's side; every method may be called on the worker's event loop only."""

    def started(self, name: str) -> None:
        """The connector instance runs."""

    def failed(self, name: str, trace: str) -> None:
        """The connector can't go on until it is restarted or reconfigured."""

    def troubled(self, name: str, line: str | None) -> None:
        """It goes on trying, and this line says at what; None when the trouble is over."""

    def reconfigure(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """These are the task configs (raw, secrets unresolved) that the connector wants from now on."""


class ConnectorPart(Protocol):
    """One running connector instance."""

    def start(self) -> None:
        """Begins in the background; returns at once."""

    async def stop(self) -> None:
        """Ends it; a call into Kafka that is under way is left behind, and its result ignored."""
