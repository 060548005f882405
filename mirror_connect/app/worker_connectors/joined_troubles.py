"""One status line for a part with several rounds: each tells its trouble, the herder hears all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.worker_connectors.host import PartHost


class JoinedTroubles:
    """Makes the hosts for the rounds of one part; on the event loop."""

    def __init__(self, host: PartHost) -> None:
        self._host = host
        self._lines: dict[int, str] = {}
        self._made = 0

    def main(self) -> PartHost:
        """For the rounds that are the connector: they start it, and may fail it."""
        return _Share(self, self._host, self._number(), main=True)

    def beside(self) -> PartHost:
        """For rounds beside them."""
        return _Share(self, self._host, self._number(), main=False)

    def say(self, name: str, number: int, line: str | None) -> None:
        """The trouble of one of them, or None."""
        before = self._joined()
        self._lines.pop(number, None)
        if line is not None:
            self._lines[number] = line
        if (now := self._joined()) != before:
            self._host.troubled(name, now)

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _joined(self) -> str | None:
        return "; ".join(line for _, line in sorted(self._lines.items())) or None


class _Share:
    """What one of the rounds has for its host."""

    def __init__(self, troubles: JoinedTroubles, host: PartHost, number: int, *, main: bool) -> None:
        self._troubles = troubles
        self._host = host
        self._number = number
        self._main = main

    def started(self, name: str) -> None:
        """Only the main rounds tell it."""
        if self._main:
            self._host.started(name)

    def failed(self, name: str, trace: str) -> None:
        """Whoever it is, the connector needs somebody who looks at its config."""
        self._host.failed(name, trace)

    def troubled(self, name: str, line: str | None) -> None:
        """Joined with the others' lines."""
        self._troubles.say(name, self._number, line)

    def reconfigure(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """Passed on."""
        self._host.reconfigure(name, task_configs)
