"""`make demo` and `make demo-cluster`: show the product, and prove its claims.

The first shows a group's failover, the second (`python -m deploy.demo cluster`) executors of a Spark cluster.
A demo stays up until Ctrl-C. With DEMO_EXIT=1, or if standard output is no terminal, it ends by itself. The exit code is 0
only if all claims were true. SIGINT, SIGTERM and SIGHUP end it at any time, with all that it started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from confluent_kafka import KafkaException

from deploy.demo import cluster_steps, steps
from deploy.demo.cluster_steps import ClusterStage
from deploy.demo.finale import end_worker, look_around, show_claims
from deploy.demo.screen import Screen, Stop, Stopped
from deploy.demo.stage import Play, Stage
from deploy.local import LocalError
from deploy.local.watchdog import watchdog

LOG_SHOWN: Final = 15
FAILURES: Final = (RuntimeError, LocalError, KafkaException, httpx.HTTPError, OSError, subprocess.SubprocessError)
FAILOVER: Final = Play(Stage, steps.STEPS, look_around, ("bash", "curl"))
CLUSTER: Final = Play(ClusterStage, cluster_steps.STEPS, cluster_steps.look_around)

S = TypeVar("S", bound=Stage)


def run(play: Play[S], screen: Screen, directory: Path, *, stay: bool) -> bool:
    """Runs a whole demo. Returns whether all claims were true. One of FAILURES if it can't continue."""
    with contextlib.ExitStack() as closing:
        stage = play.stage(screen, directory, closing)
        try:
            for number, step in enumerate(play.steps, 1):
                screen.title(f"{number}/{len(play.steps)}  {step.title}")
                step.run(stage)
        except Stopped:
            screen.say("stopping")
            raise
        true_so_far = all(claim.true for claim in stage.claims)
        if stay and true_so_far:
            show_claims(stage)
            play.look_around(stage)
            end_worker(stage)
            show_claims(stage, since=-1)
        else:
            # No commands to try: a later reader would find closed ports.
            end_worker(stage)
            show_claims(stage)
        return all(claim.true for claim in stage.claims)


def main(arguments: list[str]) -> int:
    """Entry point of `python -m deploy.demo`."""
    play: Play[Any] = CLUSTER if arguments == ["cluster"] else FAILOVER
    stop = Stop()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: stop.request(number))
    screen = Screen(stop)
    stay = screen.terminal and os.environ.get("DEMO_EXIT") != "1"
    for tool in play.tools:
        if shutil.which(tool) is None:
            print(f"The demo's deploy-connectors.sh needs {tool}, which is not installed.", file=sys.stderr)
            return 1
    log = None
    try:
        with tempfile.TemporaryDirectory(prefix="mirror-connect-demo-", ignore_cleanup_errors=True) as name:
            watchdog().guard_directory(name)
            log = Path(name) / "worker.log"
            try:
                return 0 if run(play, screen, Path(name), stay=stay) else 1
            except Stopped:
                screen.say("stopped; nothing of it is left")
                return 128 + (stop.signal or 0)
            except FAILURES as error:
                _print_failure(error, log)
                return 1
    except OSError as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1


def _print_failure(error: BaseException, log: Path) -> None:
    lines = [f"The demo failed: {error}"]
    if log.exists():
        lines += [f"  | {line}" for line in log.read_text(errors="replace").splitlines()[-LOG_SHOWN:]]
    with contextlib.suppress(OSError):  # standard error may be the terminal that was closed
        print("\n".join(lines), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
