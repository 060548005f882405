"""REST's changes of the config topic: connectors' configs and target states. The leader writes, one change at a time."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from mirror_connect.app.errors import BadRequest, ConnectorExists, ConnectorNotFound, UnknownConnector
from mirror_connect.app.herder.connector_reads import ConnectorReads, connector_info
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.starts import Starts
from mirror_connect.app.herder.validation import Validation
from mirror_connect.app.herder.views import Config, ConnectorInfo
from mirror_connect.app.storage.config_records import connector_entry, set_values
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.config.validators import plain_name
from mirror_connect.connectors.config.values import trim
from mirror_connect.connectors.log_format import ConnectorName

log = logging.getLogger(__name__)

# A record must stay below the broker's message.max.bytes (1 MiB by default), and task configs are a little larger.
CONFIG_LIMIT: Final = 900_000


class ConfigWrites:
    """See the module."""

    def __init__(
        self,
        configs: ConfigStore,
        leadership: Leadership,
        validation: Validation,
        reads: ConnectorReads,
        starts: Starts,
    ) -> None:
        self._configs = configs
        self._leadership = leadership
        self._validation = validation
        self._reads = reads
        self._starts = starts

    async def create(self, name: str, config: Config, initial_state: TargetState | None) -> ConnectorInfo:
        """Creates a connector; ConnectorExists if its name is taken."""
        named = _named(name, config)
        _check_size(name, named)
        await self._validation.check(named)
        async with self._leadership.writing() as snapshot:
            if snapshot.contains(name):
                raise ConnectorExists(name)
            started = self._starts.expect(name)
            with logged(name, f"created, asked to be {initial_state}" if initial_state else "created"):
                await self._put(name, named, initial_state)
        return connector_info(name, named, await started())

    async def put(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        """Creates a connector or replaces its whole config; returns whether the connector is new."""
        named = _named(name, config)
        _check_size(name, named)
        await self._validation.check(named)
        async with self._leadership.writing() as snapshot:
            created = not snapshot.contains(name)
            started = self._starts.expect(name)
            with logged(name, "created" if created else _change_words(snapshot.connectors[name], named, by_name=False)):
                await self._put(name, named, None)
        return created, connector_info(name, named, await started() or snapshot)

    async def patch(self, name: str, patch: Config) -> ConnectorInfo:
        """Changes some settings of a connector; None removes one. Like Connect, stores `name` without checking it."""
        while True:
            before = await self._reads.config(name)
            merged = {
                setting: value for setting, value in {**before, **patch}.items() if patch.get(setting, "") is not None
            }
            _check_size(name, merged)
            await self._validation.check(merged)
            async with self._leadership.writing() as snapshot:
                if not snapshot.contains(name):
                    raise ConnectorNotFound(name)
                if snapshot.connectors[name] != before:
                    # Another request was faster, and its change must not get lost.
                    continue
                started = self._starts.expect(name)
                with logged(name, _change_words(before, merged, by_name=True)):
                    await self._put(name, merged, None)
            return connector_info(name, merged, await started() or snapshot)

    async def delete(self, name: str) -> None:
        """Removes a connector; its source offsets stay."""
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise ConnectorNotFound(name)
            with logged(name, "deleted"):
                await self._configs.delete_connector(name)

    async def pause(self, name: str) -> None:
        """Asks for PAUSED."""
        await self._put_target_state(name, TargetState.PAUSED, "asked to pause")

    async def resume(self, name: str) -> None:
        """Asks for STARTED."""
        await self._put_target_state(name, TargetState.STARTED, "asked to resume")

    async def stop(self, name: str) -> None:
        """Asks for STOPPED; removes the task configs first, so that nobody starts the tasks in between."""
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise UnknownConnector(name)
            with logged(name, "asked to stop"):
                await self._configs.put_task_configs(name, [])
                await self._configs.put_target_state(name, TargetState.STOPPED)

    async def _put_target_state(self, name: str, state: TargetState, words: str) -> None:
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise UnknownConnector(name)
            with logged(name, words):
                await self._configs.put_target_state(name, state)

    async def _put(self, name: str, config: Config, state: TargetState | None) -> None:
        await self._configs.put_connector(name, set_values(config), state)


@contextlib.contextmanager
def logged(name: str, line: str) -> Iterator[None]:
    """Logs a request before it is written, because its effects may be in the log a moment later; and a failed write."""
    log.info("Connector %s: %s", ConnectorName(name), line)
    try:
        yield
    except Exception as error:
        why = str(error) or type(error).__name__
        log.warning(
            "Connector %s: it is unknown whether the config topic has this change (%s): %s",
            ConnectorName(name),
            line,
            why,
        )
        raise


def _check_size(name: str, config: Config) -> None:
    # Counted before it is encoded: to encode megabytes would block the loop.
    size = sum(len(setting) + len(value or "") for setting, value in config.items())
    if size <= CONFIG_LIMIT:
        size = len(connector_entry(name, config)[1] or b"")
    if size > CONFIG_LIMIT:
        raise BadRequest(
            f"The config of connector {name} is {size} bytes long; the config topic takes no more than {CONFIG_LIMIT}"
        )


def _change_words(before: Config, after: Config, *, by_name: bool) -> str:
    """What changed, for the log. `by_name`: names the settings that differ, without their values, which may be secret."""
    names = sorted({name for name, _ in before.items() ^ after.items()})
    if not names:
        return "same config again"
    return f"config changed ({', '.join(names)})" if by_name else "config changed"


def _named(name: str, config: Config) -> dict[str, str | None]:
    """The config with its name; BadRequest if it has another name."""
    given = config.get("name")
    if given is not None and given != name:
        raise BadRequest(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    # Connect checks the trimmed name, so its PUT accepts a line feed at the end; that would forge lines in logs.
    if (complaint := plain_name("name", name, str)) is not None and plain_name("name", trim(name), str) is None:
        raise BadRequest(complaint)
    return {**config, "name": name}
