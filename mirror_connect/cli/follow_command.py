"""`mirror-connect verify --follow`: until Ctrl-C, SIGTERM or the end of its time; then the table and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from rich.console import Console

from mirror_connect.cli.follow_output import FollowJson, FollowLines, json_line, print_follow_report
from mirror_connect.verify.follow import Follower, FollowOptions
from mirror_connect.verify.link import Link, Positions

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def follow(
    link: Link,
    positions: Callable[[], Awaitable[Positions | None]],
    options: FollowOptions,
    *,
    seconds: float | None,
    as_json: bool,
) -> int:
    """The exit code. Errors are those of Follower.run."""
    out, errors = Console(), Console(stderr=True)
    with FollowLines(out, errors) if not as_json else contextlib.nullcontext(FollowJson()) as watcher:
        follower = Follower(link, positions, options, watcher)
        await _until_told(follower, seconds)
    if as_json:
        json_line("end", follower.report.as_json(partitions=True))
    else:
        print_follow_report(follower.report, out)
    return follower.report.outcome


async def _until_told(follower: Follower, seconds: float | None) -> None:
    """Runs it until a signal comes or its time is over; raises what it raises."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(follower.run())
    for number in _SIGNALS:
        loop.add_signal_handler(number, running.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            done, _ = await asyncio.wait({running}, timeout=seconds)
            if not done:
                running.cancel()
            await running
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
