"""The link to compare: a connector's as its worker reports it, or one that files and options describe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import TopicSelection
from mirror_connect.connectors.mirror.mirror_source import MirrorSource, topic_selection
from mirror_connect.connectors.mirror.record_transform import setting_of_transform, transform_of
from mirror_connect.connectors.mirror.settings import (
    source_admin,
    source_consumer,
    target_admin,
    target_consumer,
)
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.errors import CannotCompareError

Positions = Mapping[TopicPartition, int]

_SOURCE_CLASSES: Final = MirrorSource().names
_BOOTSTRAP: Final = "bootstrap.servers"
# Begins a reference that only the worker can resolve.
_REFERENCE: Final = "${"
# The same in a setting that may have `${name}` for a group of an expression.
_OF_A_PROVIDER: Final = re.compile(r"\$\{[^}]*:")


@dataclass(frozen=True, slots=True)
class Client:
    """Java client properties of a cluster's consumer and admin client."""

    consumer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `positions`: offset of the last copied record by source partition; None if they are unknown."""

    name: str
    source: Client
    target: Client
    selection: TopicSelection
    source_alias: str
    positions: Positions | None = None

    @property
    def committed(self) -> bool:
        """Whether the link copies committed records only."""
        return self.source.consumer.get("isolation.level", "").lower() == "read_committed"

    def remote_topic(self, topic: str) -> str:
        """A source topic's name on the target."""
        return self.selection.policy.remote_topic(self.source_alias, topic)

    def remote(self, partition: TopicPartition) -> TopicPartition:
        """The target partition to which a source partition is copied."""
        return TopicPartition(self.remote_topic(partition.topic), partition.partition)


def link_of(
    name: str,
    config: Mapping[str, str],
    *,
    source: Mapping[str, str] | None = None,
    target: Mapping[str, str] | None = None,
    positions: Positions | None = None,
) -> Link:
    """The link of a source connector's config. `source` and `target`: client properties that replace its own.

    CannotCompareError if the config doesn't say how to reach a cluster, ConfigError if it is wrong.
    """
    kind = config.get("connector.class", "")
    if kind not in _SOURCE_CLASSES:
        raise CannotCompareError(
            f"connector {name} is a {kind.rpartition('.')[2]}, which copies no topics: name a MirrorSourceConnector"
        )
    _check_routes(name, config)
    try:
        settings = MirrorSource().settings({"name": name, **config})
    except RefusedConfig as error:
        raise CannotCompareError(f"the config of {name} is not valid: {error}") from None
    if not chain_of(config).keeps_records:
        raise CannotCompareError(
            f"{name} transforms records ({config.get('transforms')}), so the copies differ from their originals: "
            "compare them with a consumer of your own"
        )
    if (transform := transform_of(config)) is not None:
        raise CannotCompareError(
            f"{name} transforms records ({setting_of_transform(transform)}), so the copies differ from their originals: "
            "compare them with a consumer of your own"
        )
    return Link(
        name=name,
        source=client_of("source", config, source),
        target=client_of("target", config, target),
        selection=topic_selection(settings),
        source_alias=settings.text("source.cluster.alias"),
        positions=positions,
    )


def _check_routes(name: str, config: Mapping[str, str]) -> None:
    """A RegexRouter names the copies. A reference in its place would be taken for what it stands for."""
    hidden = sorted(
        key
        for key, value in config.items()
        if key.split(".")[0] in ("transforms", "predicates") and _OF_A_PROVIDER.search(value)
    )
    if hidden:
        raise CannotCompareError(
            f"a config provider of the worker holds {', '.join(hidden)} of {name}, so the names of copies are unknown here"
        )


def described_link(
    *,
    source: Mapping[str, str],
    target: Mapping[str, str],
    settings: Mapping[str, str],
) -> Link:
    """A link that options describe. `settings`: those of a source connector: topics, aliases, policy."""
    config = {"connector.class": MirrorSource.class_name, "source.cluster.alias": "source", **settings}
    return link_of("the link", config, source=source, target=target)


def client_of(side: str, config: Mapping[str, str], given: Mapping[str, str] | None) -> Client:
    """The clients of a side of a source connector's config; `given` replaces its properties. Raises as `link_of`."""
    reading, administering = (source_consumer, source_admin) if side == "source" else (target_consumer, target_admin)
    if given is not None:
        if not given.get(_BOOTSTRAP):
            raise ConfigError(_BOOTSTRAP, None, f"the {side} cluster's properties have none")
        # The connector decides the isolation level, also if a file has the other properties.
        isolation = reading(config).get("isolation.level")
        return Client({**({"isolation.level": isolation} if isolation else {}), **given}, given)
    consumer, admin = reading(config), administering(config)
    hidden = sorted(key for key, value in {**admin, **consumer}.items() if _REFERENCE in value)
    if hidden:
        raise CannotCompareError(
            f"a config provider of the worker holds {', '.join(hidden)} of the {side} cluster: "
            f"give the client properties with --{side} FILE"
        )
    if not consumer.get(_BOOTSTRAP) and not admin.get(_BOOTSTRAP):
        raise CannotCompareError(
            f"the connector's config has no {side}.cluster.bootstrap.servers"
            f"{', because it writes to the cluster of its worker' if side == 'target' else ''}: "
            f"give the client properties with --{side} FILE"
        )
    return Client(consumer, admin)


class WorkerRest:
    """The REST interface of a Connect worker, ours or Apache's. `login`: user and password."""

    def __init__(self, url: str, login: tuple[str, str] | None = None) -> None:
        self._url = url.rstrip("/")
        self._login = login
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Keeps the connection for several requests: connecting costs more CPU than a request."""
        self._client = self._new_client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def config(self, connector: str) -> dict[str, str]:
        """The connector's config as it was submitted. CannotCompareError."""
        found = await self.get(f"/connectors/{quote(connector, safe='')}/config")
        if not isinstance(found, dict):
            raise CannotCompareError(f"the worker at {self._url} has no connector {connector}")
        return {str(key): str(value) for key, value in found.items()}

    async def positions(self, connector: str, source_alias: str | None = None) -> Positions | None:
        """The connector's source offsets; None if the worker can't report them. `source_alias`: its present one."""
        found = await self.get(f"/connectors/{quote(connector, safe='')}/offsets")
        return None if not isinstance(found, dict) else positions_in(found, source_alias)

    def _new_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=30.0, auth=self._login, follow_redirects=True)

    async def get(self, path: str) -> Any:
        """The body of the answer; None if the worker has no such resource. CannotCompareError."""
        try:
            if self._client is not None:
                answer = await self._client.get(self._url + path)
            else:
                async with self._new_client() as client:
                    answer = await client.get(self._url + path)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise CannotCompareError(f"the worker at {self._url} is unreachable: {reason}") from None
        if answer.status_code in (404, 405, 501):
            return None
        if answer.status_code in (401, 403):
            raise CannotCompareError(f"the worker at {self._url} refused the login: give --user and its password")
        if answer.status_code != 200:
            raise CannotCompareError(
                f"the worker at {self._url} answered {answer.status_code} to {path}{_reason(answer)}"
            )
        try:
            return answer.json()
        except ValueError:
            raise CannotCompareError(f"{self._url} is no Connect worker: check --worker") from None


def _reason(answer: httpx.Response) -> str:
    """The message of a Connect worker's error after a colon; empty if there is no readable one."""
    try:
        body = answer.json()
    except ValueError:
        return ""
    message = body.get("message") if isinstance(body, dict) else None
    return f": {message}" if isinstance(message, str) and message else ""


def positions_in(body: Mapping[str, Any], source_alias: str | None = None) -> Positions:
    """The source offsets of this alias in an answer to `GET /connectors/NAME/offsets`."""
    found = {}
    for entry in body.get("offsets", ()):
        match entry:
            case {
                "partition": {"topic": str(topic), "partition": int(partition), **rest},
                "offset": {"offset": int(offset)},
            } if source_alias is None or rest.get("cluster") in (None, source_alias):
                found[TopicPartition(topic, partition)] = offset
    return found
