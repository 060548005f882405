"""Behind a source connector that asks for it, `verify --follow` as a process: what it finds is in the log and the status.

A process, as comparing would take the worker's loop, which keeps the lease; and on purpose none of the tasks', which would
confirm what they read wrongly themselves (docs/decisions/0015).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.host import PartHost
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.config_table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.mirror_source import FOLLOW_SHARE, own_number
from mirror_connect.connectors.secrets import redact, secrets_of

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "mirror_connect.cli.follow_process")
# The store of the positions of connectors with this resolved config.
OffsetsOf = Callable[[Mapping[str, str]], Awaitable[OffsetStore]]
RETRY_S: Final = (1.0, 5.0, 30.0)
STEADY_S: Final = 60.0
LAST_S: Final = 1.0
LINE_BYTES: Final = 16 << 20
# The log hears of progress so often, of a fault at once; of many faults only how many there are.
PROGRESS_S: Final = 600.0
FAULTS_LOGGED: Final = 20


class Following:
    """Of one connector. What it has found stays in the status until the connector is restarted or reconfigured."""

    def __init__(
        self, name: str, settings: Settings, targets: TargetChooser, offsets_of: OffsetsOf, host: PartHost
    ) -> None:
        self._name = name
        self._config = settings.originals
        self._alias = settings.text("source.cluster.alias")
        share = own_number(settings, FOLLOW_SHARE)
        self._cpu_share = share if share < 1 else None
        self._targets = targets
        self._offsets_of = offsets_of
        self._host = host
        self._going: asyncio.Task[None] | None = None
        self._first_fault = ""
        # Of the process that goes on, and of those before it.
        self._faults = self._former_faults = self._logged = 0
        self._absence = ""
        # Why it was not verified, as the log has heard it last; empty while it was verified since.
        self._told_absence = ""
        self._shown: str | None = None
        self._told_progress = -PROGRESS_S

    def start(self) -> None:
        """Begins in the background; a second time does nothing."""
        if self._going is None:
            self._going = asyncio.create_task(self._keep_following())

    async def stop(self) -> None:
        """Ends it; no process of it is left."""
        if self._going is not None:
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)

    async def _keep_following(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                self._absence = await self._follow()
            except (ClusterUnreachable, ConfigError, NotAuthorized, OSError) as error:
                self._absence = str(error)
            except Exception as error:  # whatever it is, it is this process' alone
                log.exception("Connector %s: following it", self._name)
                self._absence = f"{type(error).__name__}: {error}"
            self._former_faults, self._faults = self._former_faults + self._faults, 0
            failures = 1 if time.monotonic() - began > STEADY_S else failures + 1
            self._tell_absence()
            # Its first end may be a moment's; a second one is somebody's business.
            if failures > 1:
                self._show()
            await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S)) - 1])

    async def _follow(self) -> str:
        """One process, to its end; returns why it ended."""
        target = await self._targets.chosen(self._config)
        job = {
            "name": self._name,
            "config": dict(self._config),
            "target": dict(target.consumer),
            "cpu_share": self._cpu_share,
            "kept": sorted(target.kept),
        }
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            # Ctrl-C is for the worker, which ends this process by its pipe.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        why = ""
        try:
            process.stdin.write(_line(job))
            async for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "positions":
                    process.stdin.write(_line(await self._positions()))
                elif event["event"] == "failed":
                    why = event["text"]
                else:
                    self._take(event)
            return why or f"its process ended (exit code {await process.wait()})"
        finally:
            process.stdin.close()
            # Not asyncio.timeout: before Python 3.11.4 it ends in no TimeoutError where one is being cancelled.
            last_words = asyncio.create_task(process.communicate())
            try:
                await asyncio.wait({last_words}, timeout=LAST_S)
            finally:
                if process.returncode is None:
                    process.kill()
                # Also where nobody waits any longer: else its end would find no event loop to be told to.
                await last_words

    async def _positions(self) -> list[list[Any]]:
        store = await self._offsets_of(self._config)
        found: list[list[Any]] = []
        for entry in await store.entries(self._name):
            match entry.partition, entry.offset:
                case {"cluster": self._alias, "topic": str(topic), "partition": int(partition)}, {
                    "offset": int(offset)
                }:
                    found.append([topic, partition, offset])
        return found

    def _take(self, event: Mapping[str, Any]) -> None:
        text = self._clean(event["text"])
        match event["event"]:
            case "fault":
                self._first_fault = self._first_fault or text
                self._logged += 1
                self._faults += not self._faults
                if self._logged <= FAULTS_LOGGED:
                    log.error("Connector %s: its copy is not what its source is: %s", self._name, text)
                self._show()
            case "progress":
                self._absence = self._told_absence = ""
                self._faults = event["faults"]
                self._show()
                if time.monotonic() - self._told_progress >= PROGRESS_S:
                    self._told_progress = time.monotonic()
                    log.info("Connector %s: verified behind it: %s", self._name, text)
            case _:
                log.info("Connector %s: verifying: %s", self._name, text)

    def _tell_absence(self) -> None:
        # A cluster that is away for hours is one line, not one with each try.
        if self._absence != self._told_absence:
            self._told_absence = self._absence
            log.warning("Connector %s: its copy is not verified at present: %s", self._name, self._clean(self._absence))

    def _show(self) -> None:
        lines = []
        if faults := self._former_faults + self._faults:
            count = "1 record" if faults == 1 else f"{faults:,} records"
            lines.append(f"{count} of the copy not as at the source, at first {self._first_fault}")
        if self._absence:
            lines.append(f"the copy is not verified at present: {self._clean(self._absence)}")
        line = "; ".join(lines) or None
        if line != self._shown:
            self._shown = line
            self._host.troubled(self._name, line)

    def _clean(self, text: str) -> str:
        return redact(text, set(secrets_of(self._config)))


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
