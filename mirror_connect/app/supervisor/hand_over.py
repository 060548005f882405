"""The hand-over of partitions between tasks of different workers, as far as it concerns this worker.

A worker confirms a commit of a connector's task configs when its tasks of the connector hold nothing any more that these do
not give them: no run owns it, and nothing that an ended run has sent can still be written. It tells the group so. Then tasks
of other workers may have it. In the same way its own tasks wait for the other workers (other_workers.py).

Who holds nothing of a connector of which it is assigned tasks tells by which commit it would begin one. What it is assigned
after that it begins by the commits that the group knows, so it counts as having confirmed them.
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
    """See the module. `owners`: by connector, as of the same record of the config topic as the wanted tasks. `read`: its
    offset.

    `steady`: whether this worker has the group's newest assignment, and has not asked for another one. If not, others may
    have begun what it does not know of: then it counts only what they begin by, the commits up to the last known one.
    `changed` is called when the group should hear of it: a claim has ended, or others may wait for what was confirmed.
    `confirmed`: by connector of which this worker holds anything, the commit that it has confirmed; -1: none yet.
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
        """The other workers that have not confirmed the newest commit, as text; empty if all have."""
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
