"""Task configs, on their way from a connector to the config topic: only the group's leader writes them.

A connector may run on another worker. That worker hands its task configs to the leader, which compares them with those in
force and writes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mirror_connect.app.errors import BadRequest, ConnectError, ConnectorNotFound, NotLeader
from mirror_connect.app.herder.interfaces import LeaderClient
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0

TaskConfigs = Sequence[Mapping[str, str]]


class TaskConfigWrites:
    """See the module. `turn` is the lock that writers of configs hold; `leads` says whether this worker is the leader."""

    def __init__(
        self,
        configs: ConfigStore,
        turn: asyncio.Lock,
        *,
        leads: Callable[[], bool],
        leader: LeaderClient | None = None,
    ) -> None:
        self._configs = configs
        self._turn = turn
        self._leads = leads
        self._leader = leader
        # What the running connectors want, until they end.
        self._newest: dict[str, TaskConfigs] = {}
        self._storing: dict[str, asyncio.Task[None]] = {}

    def want(self, name: str, task_configs: TaskConfigs) -> None:
        """A connector that runs here wants these. They are written in the background, as long as it wants them."""
        self._newest[name] = task_configs
        self._store(name)

    def check(self, name: str) -> None:
        """Other task configs may be in force than the connector wants: a late request of the worker that ran it before."""
        if name in self._newest and name not in self._storing and not self._settled(name, self._newest[name]):
            self._store(name)

    def forget(self, name: str) -> None:
        """The connector no longer runs here, or is started again: what it wanted counts no more."""
        self._newest.pop(name, None)

    def forget_all(self) -> None:
        """The same for all of them."""
        self._newest.clear()

    async def stored(self, name: str) -> None:
        """Waits until what a connector wants is written."""
        if (storing := self._storing.get(name)) is not None:
            await asyncio.wait({storing})

    def stop(self) -> None:
        """Ends all writes that have not begun."""
        for task in self._storing.values():
            task.cancel()

    async def take(self, name: str, task_configs: TaskConfigs) -> None:
        """As the leader: writes what another worker's connector wants, unless it is in force already.

        NotLeader; ConnectorNotFound; BadRequest: it is paused or stopped; ConnectError: the cluster does not take it.
        """
        async with self._turn:
            if not self._leads():
                raise NotLeader
            try:
                if not self._configs.claimed:
                    await self._configs.claim()
                snapshot = self._configs.snapshot()
                if not snapshot.contains(name):
                    raise ConnectorNotFound(name)
                if snapshot.target_state(name) != TargetState.STARTED:
                    raise BadRequest(f"Connector {name} is paused or stopped: its task configs stay as they are")
                if not self._settled(name, task_configs):
                    await self._configs.put_task_configs(name, task_configs)
            except (ClusterUnreachable, NotAuthorized) as error:
                raise ConnectError(str(error)) from error

    def _store(self, name: str) -> None:
        task = self._storing[name] = asyncio.create_task(self._until_stored(name, self._newest[name]))

        def done(ended: asyncio.Task[None]) -> None:
            if self._storing.get(name) is not ended:
                return
            del self._storing[name]
            if not ended.cancelled():
                self.check(name)

        task.add_done_callback(done)

    async def _until_stored(self, name: str, task_configs: TaskConfigs) -> None:
        told = ""
        while not self._outdated(name, task_configs):
            try:
                if self._leads():
                    await self._write(name, task_configs)
                else:
                    await self._hand_over(name, task_configs)
                if self._settled(name, task_configs):
                    return
            except (ConnectError, ClusterUnreachable, NotAuthorized) as error:
                if isinstance(error, BadRequest | ConnectorNotFound):
                    # The leader knows that it was paused or deleted, and this worker is about to read that.
                    with contextlib.suppress(ClusterUnreachable, NotAuthorized):
                        await self._configs.refresh()
                    if self._outdated(name, task_configs):
                        return
                if str(error) != told:
                    log.warning(
                        "The task configs of connector %s cannot be written yet; trying again: %s",
                        ConnectorName(name),
                        error,
                    )
                told = str(error)
            await asyncio.sleep(RETRY_S)

    async def _write(self, name: str, task_configs: TaskConfigs) -> None:
        async with self._turn:
            if self._settled(name, task_configs):
                return
            if not self._configs.claimed:
                # Another leader may have written meanwhile.
                await self._configs.claim()
            if self._leads() and not self._outdated(name, task_configs) and not self._settled(name, task_configs):
                await self._configs.put_task_configs(name, task_configs)

    async def _hand_over(self, name: str, task_configs: TaskConfigs) -> None:
        if self._settled(name, task_configs):
            return
        if self._leader is None:
            raise NotLeader
        await self._leader.put_task_configs(name, task_configs)
        await self._configs.refresh()

    def _outdated(self, name: str, task_configs: TaskConfigs) -> bool:
        unwanted = self._newest.get(name) is not task_configs
        return unwanted or self._configs.snapshot().target_state(name) != TargetState.STARTED

    def _settled(self, name: str, task_configs: TaskConfigs) -> bool:
        return not tasks_changed(self._configs.snapshot(), name, task_configs)


def tasks_changed(snapshot: ConfigSnapshot, name: str, task_configs: TaskConfigs) -> bool:
    """Whether the task configs differ, or the connector config is another one than at their commit: Connect's rule."""
    if name in snapshot.inconsistent or snapshot.applied_configs.get(name) != snapshot.connectors.get(name):
        return True
    return [dict(config) for config in snapshot.tasks(name)] != [dict(config) for config in task_configs]
