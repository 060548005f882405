"""Which partitions each run of a connector may copy now: never two runs the same one.

A partition that moves is taken from its old task first, and given to the new one only when the old one has reported that
all of it is acknowledged and committed (or has ended). So it is copied in order, and no position is overtaken.
"""

from __future__ import annotations

from collections.abc import Collection

from mirror_connect.app.supervisor.run import Run


def regrant(runs: Collection[Run]) -> bool:
    """Revokes what is no longer wanted, grants what is wanted and free; returns whether any grant changed.

    `runs`: all runs of one connector that have not ended, also those told to finish.
    """
    before = {run: run.version for run in runs}
    active = [run for run in runs if not run.is_over]
    for run in active:
        run.grant(run.granted & run.wanted)
    for run in active:
        taken = frozenset[tuple[str, int]]().union(*(other.held for other in runs if other is not run))
        run.grant(run.granted | (run.wanted - taken))
    return any(run.version != before[run] for run in runs)
