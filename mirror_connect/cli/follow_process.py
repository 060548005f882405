"""`verify --follow` as a worker runs it behind a connector of its own: `python -m mirror_connect.cli.follow_process`.

Lines of JSON both ways. The first one that comes in says what to follow, secrets included, so that these stand in no
argument and no file; every other one answers the question `positions`. What goes out are the events of `verify --follow
--json`, with a `text` for people. It ends with its worker, whose end closes standard input.
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

from mirror_connect.cli.follow_output import FollowJson, json_line, progress_line
from mirror_connect.cli.verify_output import fault_line
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.verify.findings import Fault
from mirror_connect.verify.follow import Follower, FollowOptions
from mirror_connect.verify.follow_report import FollowReport
from mirror_connect.verify.link import Positions, link_of
from mirror_connect.verify.place import CannotCompareError, Key

# Whoever copies goes first.
NICE: Final = 10


def main() -> int:
    """0 never: it follows until it is told to end. 1 when it can't, after the event `failed`."""
    hide_memory()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_follow())
        except (CannotCompareError, ClusterUnreachable, NotAuthorized, ConfigError) as error:
            json_line("failed", {"text": str(error)})
        except Exception as error:  # noqa: BLE001 — the worker hears of it, whatever it is
            json_line("failed", {"text": f"{type(error).__name__}: {error}"})
    return 1


async def _follow() -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    threading.Thread(target=_hear, args=(asyncio.get_running_loop(), heard), daemon=True).start()
    job = await heard.get()

    async def positions() -> Positions | None:
        json_line("positions", {})
        told = await heard.get()
        return {(topic, partition): offset for topic, partition, offset in told}

    link = link_of(job["name"], job["config"], target=job["target"])
    link = replace(link, selection=link.selection.keeping(frozenset(job["kept"])))
    options = FollowOptions(cpu_share=job["cpu_share"], seed=random.randrange(1 << 31))
    await Follower(link, positions, options, _Events()).run()


def _hear(loop: asyncio.AbstractEventLoop, heard: asyncio.Queue[Any]) -> None:
    for line in sys.stdin.buffer:
        loop.call_soon_threadsafe(heard.put_nowait, json.loads(line))
    os._exit(0)


class _Events(FollowJson):
    def moved(self, report: FollowReport) -> None:
        if self.due():
            json_line("progress", {**report.as_json(partitions=False), "text": progress_line(report)})

    def fault(self, key: Key, fault: Fault) -> None:
        text = f"{key[0]}-{key[1]}: {fault_line(fault)}"
        json_line("fault", {"topic": key[0], "partition": key[1], **fault.as_json(), "text": text})


if __name__ == "__main__":
    # Not sys.exit: a thread of librdkafka's or of the reader's is nobody's business any more.
    sys.stdout.flush()
    os._exit(main())
