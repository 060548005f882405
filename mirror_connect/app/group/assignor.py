"""Which member runs which connectors and tasks: a pure function of what is claimed and what is wanted.

Cooperative, as Kafka Connect's assignment is (KIP-415). What a member claims and may keep stays with it. What should move is
first left out of its owner's assignment, and nobody else gets it while the owner still claims it. So at no time two members
have the same connector or task, however late one of them hears of its assignment.

Tasks need Spark. A member whose Spark is not there yet gets none while another one is ready, and keeps those that it has.
One whose Spark does not come at all gives them up. Connectors need no Spark.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


T = TypeVar("T", bound=_Ordered)


@dataclass(frozen=True, slots=True)
class Share:
    """Connectors and tasks of one member."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __or__(self, other: Share) -> Share:
        return Share(self.connectors | other.connectors, self.tasks | other.tasks)

    def __and__(self, other: Share) -> Share:
        return Share(self.connectors & other.connectors, self.tasks & other.tasks)

    def __sub__(self, other: Share) -> Share:
        return Share(self.connectors - other.connectors, self.tasks - other.tasks)


NOTHING: Final = Share()


def union(shares: Iterable[Share]) -> Share:
    """All of them."""
    found = list(shares)
    return Share(
        frozenset().union(*(each.connectors for each in found)), frozenset().union(*(each.tasks for each in found))
    )


def work(wanted: Mapping[str, int]) -> Share:
    """These connectors and all their tasks; the values are numbers of tasks."""
    tasks = frozenset(TaskId(name, number) for name, count in wanted.items() for number in range(count))
    return Share(frozenset(wanted), tasks)


def assign(
    claims: Mapping[str, Share],
    wanted: Share,
    *,
    held: Share = NOTHING,
    back: Mapping[str, Share] | None = None,
    for_connectors: str | None = None,
    balance: bool = True,
    readiness: Mapping[str, Readiness] | None = None,
) -> dict[str, Share]:
    """What each member has to run, by member id. `claims`: what each runs or has not surely ended; the keys are all members.

    `held`: what nobody gets now unless it claims it. `back`: what a member gets first, because it had it before.
    `for_connectors`: the one that may run connectors, if it is a member; None: all may. `balance`: whether what runs may
    have to move. `readiness`: of members that are not READY.
    """
    members = sorted(claims)
    back = back or {}
    connectors = _shares(
        sorted(wanted.connectors),
        {name: each.connectors for name, each in claims.items()},
        [name for name in members if for_connectors in (None, name)],
        held=held.connectors,
        back={name: each.connectors for name, each in back.items()},
        balance=balance,
        readiness={},
        family=lambda name: name,
    )
    tasks = _shares(
        sorted(wanted.tasks),
        {name: each.tasks for name, each in claims.items()},
        # In the other direction: who has a connector more need not have a task more, too.
        members[::-1],
        held=held.tasks,
        back={name: each.tasks for name, each in back.items()},
        balance=balance,
        readiness=readiness or {},
        family=lambda task: task.connector,
    )
    nothing: frozenset[Any] = frozenset()
    return {name: Share(connectors.get(name, nothing), tasks.get(name, nothing)) for name in members}


def _shares(
    wanted: Sequence[T],
    claims: Mapping[str, Collection[T]],
    members: Sequence[str],
    *,
    held: Collection[T],
    back: Mapping[str, Collection[T]],
    balance: bool,
    readiness: Mapping[str, Readiness],
    family: Callable[[T], str],
) -> dict[str, frozenset[T]]:
    """The members' shares of one kind. Of one `family` each should have as few as possible, so that they are spread."""
    claimants = Counter(each for name in claims for each in claims[name])
    asked = frozenset(wanted)
    # What two members claim belongs to neither: both end it, and then somebody gets it.
    kept = {name: {each for each in claims[name] if claimants[each] == 1 and each in asked} for name in members}
    families = {name: Counter(map(family, kept[name])) for name in members}
    free = {each: None for each in wanted if not claimants[each]}
    had = {name: sorted(free.keys() & back.get(name, ())) for name in members}
    loads = {name: len(kept[name]) + len(had[name]) for name in members}
    quotas, takers = _quotas_by_readiness(len(wanted), loads, readiness)
    if balance:
        for name in members:
            for gone in _least_spread(kept[name], len(kept[name]) - quotas[name], family):
                kept[name].remove(gone)
                families[name][family(gone)] -= 1

    def give(name: str, item: T) -> None:
        kept[name].add(item)
        families[name][family(item)] += 1
        del free[item]

    for name in members:
        for item in had[name]:
            if item in free and len(kept[name]) < quotas[name]:
                give(name, item)
    for item in [each for each in free if each not in held] if takers else ():
        # There is room: the quotas add up to all that is wanted. But two that come back may have had the same.
        room = [name for name in takers if len(kept[name]) < quotas[name]] or takers
        kind = family(item)
        give(min(room, key=lambda name: (families[name][kind], len(kept[name]))), item)
    return {name: frozenset(each) for name, each in kept.items()}


def _least_spread(items: Collection[T], count: int, family: Callable[[T], str]) -> list[T]:
    """So many of them, each of the family that most are left of, so that those that stay are spread better."""
    if count <= 0:
        return []
    families: dict[str, list[T]] = {}
    for item in sorted(items):
        families.setdefault(family(item), []).append(item)
    largest = [(-len(each), name) for name, each in families.items()]
    heapq.heapify(largest)
    found = []
    for _ in range(count):
        size, name = largest[0]
        found.append(families[name].pop())
        heapq.heapreplace(largest, (size + 1, name))
    return found


def _quotas_by_readiness(
    total: int, loads: Mapping[str, int], readiness: Mapping[str, Readiness]
) -> tuple[dict[str, int], list[str]]:
    """How many each member should have, and who may get more than it has: those that are most ready."""
    ranks = {name: readiness.get(name, Readiness.READY) for name in loads}
    best = min(ranks.values(), default=Readiness.READY)
    takers = [name for name in loads if ranks[name] is best]
    quotas = dict.fromkeys(loads, 0)
    if best is Readiness.READY:
        # Of those with the same load one that is not ready comes first: it would give up what it may keep a moment later.
        order = sorted(loads, key=lambda name: ranks[name], reverse=True)
        fair = _quotas(total, {name: loads[name] for name in order if ranks[name] is not Readiness.FAILING})
        quotas |= {name: min(loads[name], fair[name]) for name in loads if ranks[name] is Readiness.STARTING}
    quotas |= _quotas(total - sum(quotas.values()), {name: loads[name] for name in takers})
    return quotas, takers


def _quotas(total: int, loads: Mapping[str, int]) -> dict[str, int]:
    """How many each member should have: as equal as possible, and one more for those that have most, so that few move."""
    least, more = divmod(total, len(loads) or 1)
    by_load = sorted(loads, key=lambda name: -loads[name])
    return {name: least + (number < more) for number, name in enumerate(by_load)}
