"""What keeps a run from copying though nobody has said so: silence, a loop that hangs, a start or an end that drags on.

A status says RUNNING until the next is said. So each phase of a run has a time within which something must be heard; when
that is over, `why_idle` says since when nothing is copied and what is done about it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror_connect.app.supervisor.run import Phase, Run

# A task reports twice a second, so this is no pause of a busy machine; and the usual lease of 8 s is over by then.
UNHEARD_S: Final = 10.0
# A process that stands still for so long is killed.
TASK_SILENT_S: Final = 30.0
# Longest time for what takes a second as a rule: that a process begins, that it copies, that a killed one is gone.
PATIENCE_S: Final = 10.0
# The first process of a run may take longer on a small machine that starts all at once; its status doesn't say RUNNING.
FIRST_PROCESS_S: Final = 30.0


class Idle(NamedTuple):
    """Why a run does not copy. `since`: seconds of the supervisor's clock; `line` has `{since}` where that belongs.

    `foremost`: it is told in place of a reason that was told before, like a cluster that is away.
    """

    since: float
    line: str
    foremost: bool = False


def why_idle(run: Run, now: float, slots_since: float) -> Idle | None:
    """None while all is as it should be. `slots_since`: when Spark had slots for the first time."""
    match run.phase:
        case Phase.WAITING:
            return _not_begun(run, now, max(run.since, slots_since))
        case Phase.STARTED | Phase.RUNNING if now - run.heard > UNHEARD_S:
            return Idle(run.heard, _silence(run), foremost=True)
        case Phase.STARTED if now - run.since > PATIENCE_S:
            standing = run.report.standing if run.report else ()
            line = "Its process began at {since} and does not copy yet: it connects to its clusters and reads its positions"
            return Idle(run.since, "\n".join((line, *map(_literal, standing))))
        case Phase.FINISHING if run.finish_by is not None and now - run.finish_by > PATIENCE_S:
            line = (
                f"Its process {run.pid} was killed at {{since}} and is not gone yet; the task starts again when it is"
            )
            return Idle(run.finish_by, line, foremost=True)
    return None


def _not_begun(run: Run, now: float, since: float) -> Idle | None:
    if now - since <= (PATIENCE_S if run.past_attempts else FIRST_PROCESS_S):
        return None
    line = (
        "Its last epoch ended at {since}, and no process of Spark's has begun the next one yet"
        if run.past_attempts
        else "Spark was asked to run it at {since}, and no process has begun yet"
    )
    if run.query_unknown is not None:
        line += _literal(f"; Spark does not tell the state of its query: {run.query_unknown}")
    return Idle(since, line)


def _silence(run: Run) -> str:
    if run.pid is None:
        return (
            f"A process took it up at {{since}} and has said nothing yet; after {TASK_SILENT_S:g} s it is started anew"
        )
    if run.killed == run.pid:
        return f"Its process {run.pid} stood still from {{since}} on and was killed; Spark starts the task again"
    hangs = run.report is not None and run.report.loop_silent_s > 0
    stands = "reports, but has copied nothing" if hangs else "has said nothing"
    return (
        f"Its process {run.pid} {stands} since {{since}}; it is killed after {TASK_SILENT_S:g} s, "
        "and Spark starts the task again"
    )


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
