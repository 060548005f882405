"""Runs `verify --follow` as a process for source connectors that enable it.

The log, the status and the metrics show its findings.

It is a process, because comparing would block the worker's loop, which keeps the lease. It does not use the tasks' reader,
which could repeat its own mistakes (docs/decisions/0015).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mirror_connect.app.storage.offsets import SourceOffsetStore
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.mirror_source import SAMPLING_CPU_SHARE
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.secrets import redact, secrets_of
from mirror_connect.connectors.verified_records import VerifiedRecords

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "mirror_connect.cli.sampling_process")
# The store of the source offsets of connectors with this resolved config.
OffsetsOf = Callable[[Mapping[str, str]], Awaitable[SourceOffsetStore]]
RETRY_S: Final = (1.0, 5.0, 30.0)
STEADY_S: Final = 60.0
LAST_S: Final = 1.0
LINE_BYTES: Final = 16 << 20
# Progress is logged so often, a fault at once; of many faults only their number.
PROGRESS_S: Final = 600.0
FAULTS_LOGGED: Final = 20


class SamplingVerification:
    """Of one connector. What it has found stays in the status until the connector is restarted or reconfigured."""

    def __init__(
        self, settings: Settings, targets: TargetChooser, offsets_of: OffsetsOf, context: ConnectorContext
    ) -> None:
        self._name = context.name
        self._config = settings.originals
        self._alias = settings.text("source.cluster.alias")
        share = settings.number(SAMPLING_CPU_SHARE)
        self._cpu_share = share if share < 1 else None
        self._targets = targets
        self._offsets_of = offsets_of
        self._show_problems = context.source_of_problems()
        self._show_verified = context.verified
        self._going: asyncio.Task[None] | None = None
        self._first_fault = ""
        # Of the present process, and of those before it.
        self._faults = self._former_faults = self._logged = 0
        self._verified = self._formerly_verified = VerifiedRecords()
        self._absence = ""
        # The reason last logged why the copy is not verified; empty if it was verified since.
        self._logged_absence = ""
        self._logged_progress = -PROGRESS_S

    def start(self) -> None:
        """Begins in the background; a second time does nothing."""
        if self._going is None:
            self._going = asyncio.create_task(self._keep_verifying())

    async def stop(self) -> None:
        """Ends it; no process of it is left."""
        if self._going is not None:
            self._going.cancel()
            await asyncio.gather(self._going, return_exceptions=True)

    async def _keep_verifying(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                self._absence = await self._verify()
            except (ClusterUnreachable, ConfigError, NotAuthorized, OSError) as error:
                self._absence = str(error)
            except Exception as error:  # any error concerns only this process
                log.exception("Connector %s: a bug in its sampling verification", ConnectorName(self._name))
                self._absence = f"{type(error).__name__}: {error}"
            self._former_faults, self._faults = self._former_faults + self._faults, 0
            self._formerly_verified, self._verified = self._formerly_verified + self._verified, VerifiedRecords()
            failures = 1 if time.monotonic() - began > STEADY_S else failures + 1
            self._log_absence()
            # The first end may have a passing cause; from the second on a person should know.
            if failures > 1:
                self._show()
            await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S)) - 1])

    async def _verify(self) -> str:
        """One process, to its end; returns why it ended."""
        target = await self._targets.chosen(self._config)
        job = {
            "name": self._name,
            "config": dict(self._config),
            "target": dict(target.consumer),
            "cpu_share": self._cpu_share,
            "kept": sorted(target.reserved),
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
                # Even if nobody waits for it: the process must end while the event loop exists.
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
                # Shown with the next progress, which counts it as well. Should there be none, the next process shows it.
                self._verified += VerifiedRecords(findings={event["kind"]: event["records"]})
                if self._logged <= FAULTS_LOGGED:
                    log.error("Connector %s: the copy differs from its source: %s", ConnectorName(self._name), text)
                self._show()
            case "progress":
                self._absence = self._logged_absence = ""
                self._faults = event["faults"]
                self._verified = self._verified.followed_by(_verified(event))
                self._show_verified(self._formerly_verified + self._verified)
                self._show()
                if time.monotonic() - self._logged_progress >= PROGRESS_S:
                    self._logged_progress = time.monotonic()
                    log.info("Connector %s: sampling verification: %s", ConnectorName(self._name), text)
            case _:
                log.info("Connector %s: sampling verification: %s", ConnectorName(self._name), text)

    def _log_absence(self) -> None:
        # One line for a cluster that is unreachable for hours, not one for each try.
        if self._absence != self._logged_absence:
            self._logged_absence = self._absence
            log.warning(
                "Connector %s: its copy is not being verified: %s",
                ConnectorName(self._name),
                self._clean(self._absence),
            )

    def _show(self) -> None:
        problems = []
        if faults := self._former_faults + self._faults:
            count = "1 record" if faults == 1 else f"{faults:,} records"
            first = f"{count} differ from the source" if faults > 1 else f"{count} differs from the source"
            problems.append(Problem("copy", ProblemCode.COPY_DIFFERS, f"{first}; first: {self._first_fault}"))
        if self._absence:
            cause = self._clean(self._absence)
            problems.append(Problem("copy", ProblemCode.COPY_UNVERIFIED, "the copy is not being verified", cause))
        self._show_problems(problems)

    def _clean(self, text: str) -> str:
        return redact(text, set(secrets_of(self._config)))


def _verified(event: Mapping[str, Any]) -> VerifiedRecords:
    return VerifiedRecords(event["copied"], event["compared"], event["counted"], dict(event["faults_by_kind"]))


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
