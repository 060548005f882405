"""Sampling verification in a process that the worker starts: `python -m mirror_connect.cli.sampling_process`.

Both sides write lines of JSON. The first input line says what to verify. It includes secrets, which must be in no
argument and no file. Every other input line answers the event `positions`. The output has the events of `verify --follow
--json`, with a `text` for people. The worker's end closes standard input, which ends this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
from dataclasses import replace
from typing import Any, Final

import uvloop

from mirror_connect.cli.sampling_output import SamplingJson, json_line, progress_line
from mirror_connect.cli.verify_output import fault_line
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.findings import Fault
from mirror_connect.verify.link import Positions, link_of
from mirror_connect.verify.sampling import SamplingOptions, SamplingVerifier
from mirror_connect.verify.sampling_report import SamplingReport

# Copying has priority.
NICE: Final = 10


def main() -> int:
    """Runs until it is ended. If it fails, it writes the event `failed` and returns 1. It never returns 0."""
    hide_memory()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_verify_samples())
        except (CannotCompareError, ClusterUnreachable, NotAuthorized, ConfigError) as error:
            json_line("failed", {"text": str(error)})
        except Exception as error:  # noqa: BLE001 — the worker reports it, whatever it is
            json_line("failed", {"text": f"{type(error).__name__}: {error}"})
    return 1


async def _verify_samples() -> None:
    lines: asyncio.Queue[Any] = asyncio.Queue()
    threading.Thread(target=_read_lines, args=(asyncio.get_running_loop(), lines), daemon=True).start()
    job = await lines.get()

    async def positions() -> Positions | None:
        json_line("positions", {})
        answer = await lines.get()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in answer}

    link = link_of(job["name"], job["config"], target=job["target"])
    link = replace(link, selection=link.selection.with_reserved(frozenset(job["kept"])))
    options = SamplingOptions(cpu_share=job["cpu_share"], seed=random.randrange(1 << 31))
    await SamplingVerifier(link, positions, options, _Events()).run()


def _read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[Any]) -> None:
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(lines.put_nowait, json.loads(line))
    os._exit(0)


class _Events(SamplingJson):
    def moved(self, report: SamplingReport) -> None:
        if self.due():
            json_line("progress", {**report.as_json(partitions=False), "text": progress_line(report)})

    def fault(self, key: TopicPartition, fault: Fault) -> None:
        text = f"{key[0]}-{key[1]}: {fault_line(fault)}"
        json_line("fault", {"topic": key[0], "partition": key[1], **fault.as_json(), "text": text})


if __name__ == "__main__":
    # Not sys.exit, which would wait for threads of librdkafka and of the reader.
    sys.stdout.flush()
    os._exit(main())
