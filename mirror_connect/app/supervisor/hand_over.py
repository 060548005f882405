"""The hand-over of partitions between tasks of different workers, as far as it concerns this worker.

A commit of a connector's task configs gives partitions to tasks. A worker confirms it when its own tasks hold only what the
commit gives them: no run owns more, and nothing that an ended run has sent elsewhere can still be written. The worker tells
the group so. Then tasks of other workers may have the other partitions. In the same way its own tasks wait for the other
workers (other_workers.py).

A worker can have tasks of a connector assigned and hold none of its partitions yet. Then it tells by which commit it would
begin those tasks. It begins later ones by the newest commit that the group knows, so it counts as having confirmed that one
(app/group/own_claims.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.app.supervisor.other_workers import OtherWorker, OtherWorkers
from mirror_connect.app.supervisor.partition_assignment import Landing
from mirror_connect.app.supervisor.task_run import Partitions, TaskRun
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.wording import counted

_ANEW: Final = "the workers of the group are being assigned their tasks anew"


class HandOver:
    """See the module.

    `owners`: which task has which partitions, by connector, as of the record of the config topic at the offset `read`. The
    wanted tasks are of the same record.
    `steady`: whether this worker has the group's newest assignment, and has not asked for another one. If it has not, others
    may have begun tasks that it does not know of. They begin by the commits that the group knew, so no newer one counts.
    `changed` is called when the group should hear of it: a claim has ended, or others may wait for what was confirmed.
    `confirmed`: the newest commit that this worker has confirmed, by connector of which it holds anything; -1: none yet.
    `claimed`: tasks that no other worker may start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.others: Final = OtherWorkers(clock)
        self.owners: Mapping[str, PartitionOwners] = {}
        self.read = float("inf")
        self.changed: Callable[[], None] = lambda: None
        self.steady: Callable[[], bool] = lambda: True
        self.confirmed: Mapping[str, int] = {}
        self.claimed: frozenset[TaskId] = frozenset()
        # What the others take for confirmed by this worker.
        self._believed: Mapping[str, int] = {}
        self._offset = -1

    def group_changed(self, others: Iterable[OtherWorker], believed: Mapping[str, int], offset: int) -> None:
        """The group has another assignment.

        `believed`: what the others take for confirmed by this worker. `offset`: how far everybody reads the config topic
        before they begin what is assigned to them now or later.
        """
        self.others.update(others)
        self._believed, self._offset = dict(believed), offset

    def withheld(self, task: TaskId, partitions: Partitions) -> tuple[Partitions, str | None]:
        """Which of these the task must not get yet, because another worker may still write to them; and why, as a line."""
        owners = self.owners.get(task.connector)
        if owners is None or not partitions:
            return frozenset(), None
        confirmed = self.others.confirmed(task.connector, self.read)
        if not self.steady():
            confirmed = min(confirmed, self._offset)
        held, newest = owners.taken_after(task.task, partitions, confirmed)
        if newest < 0:
            return held, None
        why = self.others.why(task.connector, newest, self.read) or _ANEW
        return held, f"Waits for {counted(len(held), 'partition')}: {why}"

    def elsewhere(self, connector: str) -> str:
        """Which other workers have not confirmed the newest commit, as a line for people; empty if all have."""
        owners = self.owners.get(connector)
        if owners is None:
            # Without a commit that is known, whoever holds anything of it may hold all.
            return self.others.why(connector, float("inf"), self.read)
        if not self.steady() and owners.commit > self._offset:
            return _ANEW
        return self.others.why(connector, owners.commit, self.read)

    def look(self, runs: Collection[TaskRun], landing: Landing, wanted: Collection[TaskId]) -> None:
        """Finds out what is held and confirmed now."""
        held: dict[str, list[tuple[int, Partitions]]] = {}
        for run in runs:
            held.setdefault(run.task.connector, []).append(
                (run.task.task, run.owned | run.left if run.left else run.owned)
            )
        for task, left in landing.left():
            held.setdefault(task.connector, []).append((task.task, left))
        confirmed = {}
        for connector, parts in held.items():
            confirmed[connector] = self.confirmed.get(connector, -1)
            owners = self.owners.get(connector)
            if owners is not None and all(owners.has_given(task, partitions) for task, partitions in parts):
                confirmed[connector] = max(owners.commit, confirmed[connector])
        # What was retired writes nothing more, and the fence holds off what it has sent. Without a fence it stays claimed:
        # the group does not hear of a lease that was over for a moment. If it has lost this worker, no claim counts.
        claimed = frozenset(run.task for run in runs if run.may_write or not run.is_fenced) | landing.unfenced_tasks()
        ended = self.claimed - claimed - set(wanted)
        self.confirmed, self.claimed = confirmed, claimed
        if ended or self._others_may_wait():
            self.changed()

    def _others_may_wait(self) -> bool:
        """Whether the others take less for confirmed than is confirmed."""
        if not self.others.are_there:
            return False
        for connector, believed in self._believed.items():
            now = self.confirmed.get(connector)
            owners = self.owners.get(connector)
            # Who holds nothing any more has confirmed all that there is.
            if believed < (now if now is not None else owners.commit if owners is not None else -1):
                return True
        return any(connector not in self._believed for connector in self.confirmed)
