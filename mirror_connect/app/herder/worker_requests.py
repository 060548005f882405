"""Requests of other workers of the group, signed with the session key in the config topic: checked, then carried out.

A connector that runs on another worker than the leader hands its task configs to the leader, which writes them. Java workers
are never in a group of ours. What is signed as theirs, without the signature of our own, is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NoReturn

from mirror_connect.app.errors import (
    Forbidden,
    NotInStandaloneMode,
)
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.request_signatures import (
    WORKER_SIGNATURE,
    Verified,
    WorkerSignatures,
    check_body_signature,
)
from mirror_connect.app.herder.task_config_writes import TaskConfigWrites
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.storage.config_records import SessionKey
from mirror_connect.app.storage.config_view import Change, SessionKeyChanged
from mirror_connect.app.storage.configs import ConfigStore

# A key that the leader has replaced still signs what is on its way.
FORMER_KEY_S: Final = 60.0


class Asked(StrEnum):
    """What a request asks for."""

    TASK_CONFIGS = "externally setting task configurations"
    FENCING = "exactly-once source connectors"
    FIGURES = "figures of other workers"


class StandaloneRequests:
    """In standalone mode: nobody is asked for a signature, as in Connect."""

    async def refuse(self, what: Asked) -> None:
        """Always raises NotInStandaloneMode."""
        raise NotInStandaloneMode(what)


class WorkerRequests:
    """See the module."""

    def __init__(
        self,
        configs: ConfigStore,
        leadership: Leadership,
        link: WorkersLink,
        *,
        membership: Membership,
        task_configs: TaskConfigWrites,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configs = configs
        self._leadership = leadership
        self._membership = membership
        self._task_configs = task_configs
        self._link = link
        self._clock = clock
        self._allowed = link.inter_worker.verification_algorithms
        self._signatures = WorkerSignatures(self._allowed, clock)
        self._present: SessionKey | None = None
        self._former: tuple[SessionKey, float] | None = None
        configs.add_listener(self._changed)

    async def refuse(self, what: Asked) -> None:
        """For a standalone worker; here nothing is refused without a look at its signature."""
        del what
        await self._leadership.until_ready()

    def verified(self, method: str, target: bytes, header: str) -> Verified:
        """Checks the signature of our own; the body is still to be checked. BadRequest, Forbidden, NoSessionKey."""
        return self._signatures.check(header, method, self._link.url, target, self._keys())

    def check_connects(self, body: bytes, algorithm: str | None, signature: str | None) -> None:
        """Connect's check of a body. BadRequest, Forbidden, NoSessionKey."""
        check_body_signature(body, algorithm, signature, allowed=self._allowed, keys=self._keys())

    def refuse_connects(self) -> NoReturn:
        """Of a valid request that is signed as a Java worker's."""
        raise Forbidden(
            f"Internal request without {WORKER_SIGNATURE}: no worker of this group sends it, as they sign time and path, too"
        )

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], sender: str) -> None:
        """Writes the task configs of a connector that another worker runs; only the leader does. See TaskConfigWrites."""
        await self._leadership.until_ready()
        runs = [each.worker_id for each in self._membership.assignment.workers if name in each.connectors]
        if runs and sender not in runs:
            # Who ran it before computed them from an older config.
            raise Forbidden(
                f"Task configs of connector {name} from {sender} are refused: {', '.join(runs)} runs it now"
            )
        await self._task_configs.take(name, configs)

    def _keys(self) -> list[SessionKey]:
        self._follow()
        keys = [] if self._present is None else [self._present]
        if self._former is not None and self._clock() < self._former[1]:
            keys.append(self._former[0])
        return keys

    def _changed(self, change: Change) -> None:
        if isinstance(change, SessionKeyChanged):
            self._follow()

    def _follow(self) -> None:
        key = self._configs.snapshot().session_key
        if key != self._present:
            if self._present is not None:
                self._former = (self._present, self._clock() + FORMER_KEY_S)
            self._present = key
