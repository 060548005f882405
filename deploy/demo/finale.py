"""The end of the demo: the claims, what to try while it stays up, and the worker's clean stop."""

from __future__ import annotations

import contextlib
import time
from typing import Final

import psutil

from deploy.demo.records import SOURCE_TOPIC, TARGET_TOPIC, Arrivals, SourceLines
from deploy.demo.screen import WIDTH, Stopped
from deploy.demo.stage import READER, REST_PASSWORD, REST_USER, Stage
from deploy.demo.worker import TREE_ENDS_S

LINE_EVERY_S: Final = 1.0
FOR_EVER_S: Final = 1e9


def show_claims(stage: Stage, since: int = 0) -> None:
    """All claims, or those from `since` on, in one block."""
    shown = stage.claims[since:]
    stage.screen.title("Proven" if all(claim.true for claim in shown) else "Not everything is true")
    for claim in shown:
        stage.screen.claim(claim)


def look_around(stage: Stage) -> None:
    """Shows commands to try, while a line a second continues to arrive. Returns when the demo must end."""
    say = stage.screen.plain
    stage.screen.title("Look around")
    for name in stage.connectors:
        say(curl(f"{stage.url}/connectors/{name}/status"))
    copying = f"{stage.url}/connectors/mirror-source-connector"
    say(curl(f"{copying}/topics"))
    say(curl(f"{copying}/pause", "-X PUT"))
    say(curl(f"{copying}/resume", "-X PUT"))
    say()
    say(f"  REST      user {REST_USER}, password {REST_PASSWORD}: from restapi-users.txt")
    say(f"  kafka-1   {stage.source.bootstrap_servers}, SASL_PLAINTEXT/PLAIN, topic {SOURCE_TOPIC}")
    say(f"  kafka-2   {stage.target.bootstrap_servers}, SASL_PLAINTEXT/PLAIN, topic {TARGET_TOPIC}")
    say(f"            user {READER}, password {stage.source.librdkafka(READER)['sasl.password']} on both")
    say(f"  files     {stage.directory}")
    say("            connect.properties, kafka.properties, connectors/, worker.log")
    stage.screen.title("A line a second continues to arrive, until Ctrl-C")
    with contextlib.suppress(Stopped):
        _keep_going(stage)


def end_worker(stage: Stage) -> None:
    """Stops the worker by SIGTERM, and claims that no process is left."""
    stage.screen.say("stopping the worker")
    tree = stage.processes()
    began = time.monotonic()
    code = stage.worker.stop()
    _, left = psutil.wait_procs(tree, timeout=TREE_ENDS_S)
    stage.prove(
        f"end: the worker's exit code is {code}, after {time.monotonic() - began:.1f} s, "
        f"{len(left)} of its {len(tree)} processes left",
        code == 0 and not left,
    )


def curl(url: str, options: str = "") -> str:
    """A command to paste, on two lines if one would be too long."""
    login = f"-u {REST_USER}:{REST_PASSWORD}"
    command = " ".join(part for part in ("  curl", login, options) if part)
    one_line = f"{command} {url}"
    return one_line if len(one_line) < WIDTH else f"{command} \\\n    {url}"


def _keep_going(stage: Stage) -> None:
    lines = SourceLines(stage.source)
    last = ""
    next_line = time.monotonic()
    with contextlib.closing(lines), contextlib.closing(Arrivals(stage.target, from_beginning=False)) as arrivals:

        def one_more() -> bool:
            nonlocal next_line, last
            stage.worker.check_alive()
            for record in arrivals.poll():
                last = record
            if time.monotonic() >= next_line:
                lines.write(1)
                next_line += LINE_EVERY_S
            return False

        def doing() -> str:
            return f"{lines.written} written, {arrivals.count} arrived  {last.partition('  ')[2]}"

        stage.screen.wait(doing, one_more, FOR_EVER_S)
