"""`mirror-connect verify --follow`: until Ctrl-C, SIGTERM or the end of `--for`; then the table and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from rich.console import Console

from mirror_connect.cli.sampling_output import SamplingJson, SamplingLines, json_line, print_sampling_report
from mirror_connect.verify.link import Link, Positions
from mirror_connect.verify.sampling import SamplingOptions, SamplingVerifier

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def verify_samples(
    link: Link,
    positions: Callable[[], Awaitable[Positions | None]],
    options: SamplingOptions,
    *,
    seconds: float | None,
    as_json: bool,
) -> int:
    """Verifies samples, prints the result and returns the exit code. Errors are those of SamplingVerifier.run."""
    out, errors = Console(), Console(stderr=True)
    with SamplingLines(out, errors) if not as_json else contextlib.nullcontext(SamplingJson()) as watcher:
        verifier = SamplingVerifier(link, positions, options, watcher)
        await _until_ended(verifier, seconds)
    if as_json:
        json_line("end", verifier.report.as_json(partitions=True))
    else:
        print_sampling_report(verifier.report, out)
    return verifier.report.outcome


async def _until_ended(verifier: SamplingVerifier, seconds: float | None) -> None:
    """Runs the verifier until a signal comes or its time is over; raises its errors."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(verifier.run())
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
