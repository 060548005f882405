"""Requests of this worker to other members of its group: signed, or a user's request that another one carries out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from mirror_connect.app.config.inter_worker import InterWorker
from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorNotFound,
    Forbidden,
    NoSessionKey,
    NotLeader,
    WorkerUnreachable,
)
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.herder.request_signatures import (
    ALGORITHM,
    SIGNATURE,
    WORKER_SIGNATURE,
    SignedRequest,
    body_signature,
    worker_signature,
)
from mirror_connect.app.rest_client import Reply, RestClient
from mirror_connect.app.storage.config_records import SessionKey
from mirror_connect.app.storage.configs import ConfigStore

_PUT_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.1
_ANSWER_LIMIT: Final = 64 << 10
# The receiver may read the config topic a moment later than this worker, and not know the newest key yet.
_UNKNOWN_KEY_TRIES: Final = 4
_UNKNOWN_KEY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class WorkersLink:
    """How this worker and others of its group ask each other. `url`: its own; `client`: None if it asks nobody."""

    url: str = ""
    inter_worker: InterWorker = field(default_factory=InterWorker)
    client: RestClient | None = None


class SignedClient:
    """See the module, and WorkerClient and LeaderClient of interfaces.py. `worker_id` names this worker to others."""

    def __init__(
        self,
        link: WorkersLink,
        configs: ConfigStore,
        membership: Membership,
        worker_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._link = link
        self._configs = configs
        self._membership = membership
        self._worker_id = worker_id
        self._clock = clock

    @property
    def available(self) -> bool:
        """Whether this worker asks others at all."""
        return self._link.client is not None

    async def signed(
        self, method: str, url: str, path: str, body: bytes, *, patience_s: float, limit: int
    ) -> tuple[int, bytes]:
        """See WorkerClient."""
        for number in range(_UNKNOWN_KEY_TRIES):
            key = self._key()
            if key is None:
                raise NoSessionKey
            algorithm = self._link.inter_worker.signature_algorithm
            connects = {SIGNATURE: body_signature(body, key, algorithm), ALGORITHM: algorithm}
            reply = await self._send(url, method, path.encode(), connects, body, patience_s=patience_s, limit=limit)
            if reply.status != Forbidden.status or number == _UNKNOWN_KEY_TRIES - 1:
                break
            await asyncio.sleep(_UNKNOWN_KEY_S)
        return reply.status, reply.body

    async def forward(self, url: str, method: str, target: bytes, authorization: str | None, body: bytes) -> Reply:
        """A user's request, with the user's credentials. WorkerUnreachable.

        It is signed, too: a worker with rest.read.only refuses what users ask of it, and not what the group does.
        """
        headers = {} if authorization is None else {"Authorization": authorization}
        return await self._send(url, method, target, headers, body)

    async def leader_after(self, url: str, patience_s: float) -> str | None:
        """The URL of the next leader after the one at `url`, which may be this worker; None if it does not change."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(patience_s) else patience_s):
                while self._membership.leader_url in (None, url):
                    await asyncio.sleep(_LOOK_EVERY_S)
                return self._membership.leader_url
        return None

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """See LeaderClient."""
        url = self._membership.leader_url
        if url is None:
            raise NotLeader
        # In a thread: the configs of a connector may have megabytes, which would block the loop.
        body = await asyncio.to_thread(lambda: json.dumps([dict(each) for each in configs]).encode())
        path = f"/connectors/{quote(connector, safe='')}/tasks"
        status, answer = await self.signed("POST", url, path, body, patience_s=_PUT_S, limit=_ANSWER_LIMIT)
        if status == 204:
            return
        message = message_of(answer) or f"the worker at {url} answered {status} to task configs of {connector}"
        match status:
            case 404:
                raise ConnectorNotFound(connector)
            case 409:
                raise NotLeader
            case 400:
                raise BadRequest(message)
            case 403:
                raise Forbidden(message)
        raise ConnectError(message)

    async def _send(
        self,
        url: str,
        method: str,
        target: bytes,
        headers: Mapping[str, str],
        body: bytes,
        *,
        patience_s: float | None = None,
        limit: int | None = None,
    ) -> Reply:
        if self._link.client is None:
            raise WorkerUnreachable(url, "can't be asked: this worker has no REST for other workers", sent=False)
        signature = await self._signature(url, method, target, body)
        sent = {**headers, **({WORKER_SIGNATURE: signature} if signature else {})}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        return await self._link.client.send(url, method, target, encoded, body, patience_s=patience_s, limit=limit)

    async def _signature(self, url: str, method: str, target: bytes, body: bytes) -> str | None:
        key = self._key()
        if key is None:
            return None
        large = len(body) > _ANSWER_LIMIT
        request = (
            await asyncio.to_thread(SignedRequest.of, method, url, target, body)
            if large
            else SignedRequest.of(method, url, target, body)
        )
        algorithm = self._link.inter_worker.signature_algorithm
        return worker_signature(request, self._worker_id, key, algorithm, self._clock())

    def _key(self) -> SessionKey | None:
        return self._configs.snapshot().session_key


def message_of(answer: bytes) -> str | None:
    """The message of an error that a Connect worker answers; None for any other body."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) else None
