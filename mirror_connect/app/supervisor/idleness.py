"""Why a task run does not copy although nothing was reported: silence, a loop that hangs, a slow start or end.

A status stays RUNNING until the next one. So each phase of a run has a time limit for signs of life; after it, `why_idle`
gives the line that says since when nothing is copied and which action follows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.problems import status_lines

# A task reports twice a second, so this is longer than a pause of a busy machine; the usual lease of 8 s is over by then.
UNHEARD_S: Final = 10.0
# A process that is stalled for so long is killed.
TASK_SILENT_S: Final = 30.0
# Longest time for steps that usually take a second: a process begins, it copies, a killed one is gone.
PATIENCE_S: Final = 10.0
# The first process of a run may take longer on a small machine that starts everything at once; its status isn't RUNNING.
FIRST_PROCESS_S: Final = 30.0


class Idle(NamedTuple):
    """Why a run does not copy. `since`: seconds of the supervisor's clock; `line` has `{since}` as its placeholder.

    `foremost`: it replaces a reason that the status shows already, like an unreachable cluster.
    """

    since: float
    line: str
    foremost: bool = False


def why_idle(run: TaskRun, now: float, slots_since: float) -> Idle | None:
    """The reason, or None if the run copies or may still be starting. `slots_since`: when Spark first had slots."""
    match run.phase:
        case Phase.WAITING:
            return _not_begun(run, now, max(run.since, slots_since))
        case Phase.STARTED | Phase.RUNNING if now - run.heard > UNHEARD_S:
            return Idle(run.heard, _silence(run), foremost=True)
        case Phase.STARTED if now - run.since > PATIENCE_S:
            problems = status_lines(run.report.problems, run.report.more_problems) if run.report else []
            line = (
                "Its process began at {since} and does not copy yet: it is connecting to its clusters or reading its source "
                "offsets"
            )
            return Idle(run.since, "\n".join((line, *map(_literal, problems))))
        case Phase.FINISHING if run.finish_by is not None and now - run.finish_by > PATIENCE_S:
            line = (
                f"Its process {run.pid} was killed at {{since}} and is not gone yet; the task starts again when it is"
            )
            return Idle(run.finish_by, line, foremost=True)
    return None


def _not_begun(run: TaskRun, now: float, since: float) -> Idle | None:
    if now - since <= (PATIENCE_S if run.past_attempts else FIRST_PROCESS_S):
        return None
    line = (
        "Its last epoch ended at {since}, and no Spark process has begun the next one yet"
        if run.past_attempts
        else "Spark was asked to run it at {since}, and no process has begun yet"
    )
    if run.query_unknown is not None:
        line += _literal(f"; Spark does not report the state of its query: {run.query_unknown}")
    return Idle(since, line)


def _silence(run: TaskRun) -> str:
    if run.pid is None:
        return (
            f"A process started it at {{since}} and has reported nothing yet; after {TASK_SILENT_S:g} s it is restarted"
        )
    if run.killed == run.process:
        return f"Its process {run.pid} was stalled from {{since}} on and was killed; Spark starts the task again"
    hangs = run.report is not None and run.report.loop_silent_s > 0
    stands = "reports, but has copied nothing" if hangs else "has reported nothing"
    if run.is_elsewhere:
        # It may only connect slowly.
        lasts = f" if that lasts {TASK_SILENT_S:g} s" if hangs and not run.withdrawn else ""
        return f"Its process {run.pid} on executor {run.executor} {stands} since {{since}}; another one gets the task{lasts}"
    return (
        f"Its process {run.pid} {stands} since {{since}}; it is killed after {TASK_SILENT_S:g} s, "
        "and Spark starts the task again"
    )


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
