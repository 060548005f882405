"""The workers of the group: who leads, what runs where, and how long each surely keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mirror_connect.app.herder.figures_elsewhere import FiguresElsewhere
from mirror_connect.app.herder.interfaces import GroupMember, Membership, Supervisor
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.task_protocol import TaskId


@dataclass(frozen=True, slots=True)
class WorkerInGroup:
    """A member. `lease_ms`: for how long it surely keeps what it runs; `version`: of mirror-connect; `spark`: the name of
    its Readiness; `told_ms`: when it told these. None if that is unknown. `places`: executor and host of tasks on a cluster.
    """

    worker_id: str
    url: str
    leads: bool
    connectors: tuple[str, ...]
    tasks: tuple[TaskId, ...]
    version: str | None
    lease_ms: int | None
    told_ms: int | None
    spark: str | None = None
    places: Mapping[TaskId, TaskPlace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A former member, and what it may have run. `lost_ago_ms`: for how long it has been away at the most."""

    worker_id: str
    connectors: tuple[str, ...]
    tasks: tuple[TaskId, ...]
    lost_ago_ms: int


@dataclass(frozen=True, slots=True)
class WorkersView:
    """`answering`: the worker that answers. `generation`: of the group; None outside of it.

    `delay_ms`: for how long what a lost worker ran still waits for it (scheduled.rebalance.max.delay.ms).
    """

    answering: str
    leader_url: str | None
    generation: int | None
    workers: tuple[WorkerInGroup, ...]
    lost: tuple[LostWorker, ...]
    delay_ms: int | None


class Workers:
    """See the module. `now_ms`: milliseconds since 1970; `boot`: the clock of the membership; `spark`: where its
    tasks run.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        leadership: Leadership,
        membership: Membership,
        configs: ConfigStore,
        elsewhere: FiguresElsewhere,
        now_ms: Callable[[], int],
        spark: Supervisor,
        boot: Callable[[], float] = boot_clock,
    ) -> None:
        self._worker_id = worker_id
        self._leadership = leadership
        self._membership = membership
        self._configs = configs
        self._elsewhere = elsewhere
        self._now_ms = now_ms
        self._boot = boot
        self._spark = spark

    async def all(self) -> WorkersView:
        """All of them, as this worker knows the group. NotReady."""
        await self._leadership.until_ready()
        await self._elsewhere.refresh()
        assignment, now = self._membership.assignment, self._boot()
        delay = assignment.delayed_until
        return WorkersView(
            answering=self._worker_id,
            leader_url=self._membership.leader_url,
            generation=assignment.generation if assignment.generation >= 0 else None,
            workers=tuple(map(self._worker, assignment.workers or (self._alone(),))),
            lost=tuple(
                LostWorker(
                    each.worker_id, _sorted(each.connectors), _by_number(each.tasks), int((now - each.lost_at) * 1000)
                )
                for each in assignment.lost
            ),
            delay_ms=None if delay is None or delay <= now else int((delay - now) * 1000),
        )

    def _alone(self) -> GroupMember:
        """This worker where nobody shares anything: the leader runs everything."""
        snapshot, url = self._configs.snapshot(), self._membership.leader_url if self._membership.is_leader else None
        if not self._membership.is_leader:
            return GroupMember("", self._worker_id)
        tasks = {TaskId(name, number) for name in snapshot.connectors for number in range(snapshot.task_count(name))}
        return GroupMember(url or "", self._worker_id, frozenset(snapshot.connectors), frozenset(tasks))

    def _worker(self, member: GroupMember) -> WorkerInGroup:
        if member.worker_id == self._worker_id:
            runs_for = self._membership.runs_for()
            # A standalone worker keeps it for ever.
            lease = int(runs_for * 1000) if math.isfinite(runs_for) else None
            version: str | None = API_VERSION
            told: int | None = self._now_ms()
            spark: str | None = self._spark.readiness.name
            places: Iterable[TaskPlace] = self._spark.places()
        else:
            version, lease, told, spark, places = None, None, None, None, ()
            if (found := self._elsewhere.worker(member.worker_id)) is not None:
                figures, age = found
                lease = None if figures.lease is None else max(0, int((figures.lease - age) * 1000))
                version, told = figures.version, self._now_ms() - int(age * 1000)
                spark, places = figures.spark, figures.places
        return WorkerInGroup(
            worker_id=member.worker_id,
            url=member.url if member.url.startswith("http") else "",
            leads=bool(member.url) and member.url == self._membership.leader_url,
            connectors=_sorted(member.connectors),
            tasks=_by_number(member.tasks),
            version=version,
            lease_ms=lease,
            told_ms=told,
            spark=spark,
            places={TaskId(each.connector, each.task): each for each in places},
        )


def _sorted(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _by_number(tasks: frozenset[TaskId]) -> tuple[TaskId, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.connector, task.task)))
