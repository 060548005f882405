"""Reads the groups of a source once: all groups, the ones to translate, and the ones that can't be translated."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import CheckpointSelection
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups, GroupKind
from mirror_connect.kafka_io.client.cluster import Cluster


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """`wanted`: to be translated. `listed`: all that exist. `unreadable`: group → why its committed offsets aren't known.

    `untranslatable`: group → what kind it is, of those that the filter accepts.
    """

    wanted: tuple[str, ...]
    listed: frozenset[str]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    untranslatable: Mapping[str, str] = field(default_factory=dict)


def see_groups(
    properties: Mapping[str, str], client_id: str, selection: CheckpointSelection, timeout: float
) -> SeenGroups:
    """Reads them; blocking, for a thread without an event loop. ClusterUnreachable, NotAuthorized, ConfigError."""

    async def see() -> SeenGroups:
        async with asyncio.timeout(timeout):
            return await _see(properties, client_id, selection)

    try:
        return asyncio.run(see())
    except TimeoutError:
        raise ClusterUnreachable(f"The source cluster did not list its groups within {timeout:g} s") from None


async def _see(properties: Mapping[str, str], client_id: str, selection: CheckpointSelection) -> SeenGroups:
    cluster = Cluster(properties, client_id, kind="admin")
    try:
        groups = ConsumerGroups(cluster, SOURCE_USER)
        listed = await groups.listed()
        selection.judge_groups(listed)
        accepted = {name: each.kind for name, each in sorted(listed.items()) if selection.accepts_group(name)}
        consumers = [name for name, kind in accepted.items() if kind is GroupKind.CONSUMER]
        read = await groups.read(consumers)
    except ClusterUnreachable as error:
        raise ClusterUnreachable(f"The source cluster cannot list its groups: {error}") from None
    finally:
        await cluster.close()
    selection.judge_topics({topic for committed in read.committed.values() for topic, _ in committed})
    wanted = tuple(
        name
        for name in consumers
        if name in read.committed and selection.wants(name, [topic for topic, _ in read.committed[name]])
    )
    others = {name: kind.value for name, kind in accepted.items() if kind in (GroupKind.SHARE, GroupKind.STREAMS)}
    return SeenGroups(wanted, frozenset(listed), read.problems, others)


def groups_to_assign(seen: SeenGroups, assigned: Collection[str]) -> list[str]:
    """The groups to translate. `assigned`: those until now.

    Of these, groups that can't be read now stay: to drop and add them again would restart tasks twice.
    """
    return sorted({*seen.wanted, *(group for group in assigned if group in seen.unreadable)})
