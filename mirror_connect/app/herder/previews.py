"""Previews of connectors for REST: validation as for a new connector, then the source's last records (app/planning)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mirror_connect.app.errors import BadRequest, ClusterAway, SparkNotReady
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.validation import Validation
from mirror_connect.app.herder.views import Config
from mirror_connect.app.planning.preview import Preview
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.supervisor.preview_lookups import LookupRefused
from mirror_connect.app.supervisor.spark_questions import SparkAway
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.secrets import redact, resolved_secrets
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class Previewer(Protocol):
    """app/planning/preview.py."""

    async def preview(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], count: int, *, before: bool, topic: str | None
    ) -> Preview:
        """See preview.Previewer."""


@dataclass(frozen=True, slots=True)
class Previewed:
    """`validation`: the answer of config/validate. `errors`: all for which a request to create it would be refused.

    `preview`: None if there are errors.
    """

    validation: dict[str, Any]
    errors: list[str]
    preview: Preview | None


class Previews:
    """Any worker of the group can preview: nothing is written."""

    def __init__(self, leadership: Leadership, validation: Validation, previewer: Previewer | None) -> None:
        self._leadership = leadership
        self._validation = validation
        self._previewer = previewer

    async def preview(self, plugin: str, config: Config, count: int, *, before: bool, topic: str | None) -> Previewed:
        """The preview of a config. `before`: with what the source has. BadRequest, ClusterAway, SparkNotReady."""
        await self._leadership.until_ready()
        validation = await self._validation.infos(plugin, config)
        errors = [error for info in validation["configs"] for error in info["value"]["errors"]]
        if not errors:
            errors = await self._validation.errors(config)
        if errors or self._previewer is None:
            return Previewed(validation, errors, None)
        raw = set_values(config)
        resolved = await self._validation.accepted(raw)
        secrets = resolved_secrets(raw, resolved)
        try:
            preview = await self._previewer.preview(raw, resolved, count, before=before, topic=topic)
        except (ClusterUnreachable, NotAuthorized, AdminError) as error:
            raise ClusterAway(redact(str(error), secrets)) from None
        except SparkAway as error:
            raise SparkNotReady(redact(str(error), secrets)) from None
        except (ConfigError, LookupRefused) as error:
            raise BadRequest(redact(str(error), secrets)) from None
        return Previewed(validation, [], preview)
