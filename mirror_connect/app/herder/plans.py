"""Plans of connectors for REST: validation as for a new connector, then what it would do (app/planning)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mirror_connect.app.errors import BadRequest, ClusterAway
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.validation import Validation
from mirror_connect.app.herder.views import Config
from mirror_connect.app.planning.plan import Plan
from mirror_connect.app.planning.planner import Existing
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.secrets import redact, resolved_secrets
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class Planner(Protocol):
    """app/planning/planner.py."""

    async def plan(
        self,
        raw: Mapping[str, str],
        resolved: Mapping[str, str],
        existing: Existing | None = None,
        speed: float | None = None,
    ) -> Plan:
        """See planner.Planner."""


@dataclass(frozen=True, slots=True)
class Planned:
    """`validation`: the answer of config/validate. `errors`: all for which a request to create it would be refused.

    `plan`: None if there are errors.
    """

    validation: dict[str, Any]
    errors: list[str]
    plan: Plan | None


class Plans:
    """Any worker of the group can plan: nothing is written."""

    def __init__(
        self, configs: ConfigStore, leadership: Leadership, validation: Validation, planner: Planner | None
    ) -> None:
        self._configs = configs
        self._leadership = leadership
        self._validation = validation
        self._planner = planner

    async def plan(self, plugin: str, config: Config, speed: float | None = None) -> Planned:
        """The plan of a config for `PUT /connector-plugins/{plugin}/config/plan`. BadRequest, ClusterAway."""
        await self._leadership.until_ready()
        validation = await self._validation.infos(plugin, config)
        errors = [error for info in validation["configs"] for error in info["value"]["errors"]]
        if not errors:
            errors = await self._validation.errors(config)
        if errors or self._planner is None:
            return Planned(validation, errors, None)
        raw = set_values(config)
        resolved = await self._validation.accepted(raw)
        secrets = resolved_secrets(raw, resolved)
        try:
            return Planned(validation, [], await self._planner.plan(raw, resolved, self._existing(raw), speed))
        except (ClusterUnreachable, NotAuthorized, AdminError) as error:
            raise ClusterAway(redact(str(error), secrets)) from None
        except ConfigError as error:
            raise BadRequest(redact(str(error), secrets)) from None

    def _existing(self, raw: Mapping[str, str]) -> Existing | None:
        snapshot = self._configs.snapshot()
        name = raw.get("name") or ""
        if not snapshot.contains(name):
            return None
        tasks = [set_values(task) for task in snapshot.tasks(name)]
        return Existing(set_values(snapshot.connectors[name]), tasks)
