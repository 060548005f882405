"""The settings metrics.* of a process: where Prometheus reads its metrics, and which series there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.config.worker_keys import METRICS_KEYS
from mirror_connect.connectors.config.table import RefusedConfig, Settings

PORT: Final = "metrics.port"
# For a program without a properties file of its own: METRICS_PORT stands for metrics.port.
ENVIRONMENT: Final = "MIRROR_CONNECT_"


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """`port`: None for none; 0 for any free one. `host`: empty for every address. `names`, `detail`: see worker_keys.py."""

    port: int | None = None
    host: str = ""
    names: tuple[str, ...] = ("jmx",)
    detail: str = "partition"


NO_PORT: Final = MetricsSettings()


def metrics_settings(settings: Settings) -> MetricsSettings:
    """From checked settings."""
    return MetricsSettings(
        port=settings[PORT],
        host=settings.text("metrics.host"),
        names=tuple(settings.texts("metrics.names")),
        detail=settings.text("metrics.detail"),
    )


def metrics_from_environment(environment: Mapping[str, str]) -> MetricsSettings:
    """Of MirrorMaker 1, which has no worker properties: MIRROR_CONNECT_METRICS_PORT and so on. ConfigError."""
    names = {name: f"{ENVIRONMENT}{name.upper().replace('.', '_')}" for name in METRICS_KEYS.keys}
    given = {name: environment[variable] for name, variable in names.items() if environment.get(variable)}
    for name, result in METRICS_KEYS.validate_all(given).items():
        if result.errors:
            raise RefusedConfig(names[name], f"{names[name]}: {result.errors[0]}")
    return metrics_settings(METRICS_KEYS.parse_all(given))
