"""The port of a process that serves its metrics alone, for Prometheus: without login and TLS, as jmx_exporter's."""

from __future__ import annotations

import logging
import socket

from mirror_connect.app.config.metrics_settings import PORT, MetricsSettings
from mirror_connect.app.environment import listen_on
from mirror_connect.app.exposition.exposition import Exposition, ExpositionSettings
from mirror_connect.app.exposition.kafka_names import NameSet
from mirror_connect.app.exposition.partition_rows import Detail
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.rest.metrics import PATH, create_metrics_application

log = logging.getLogger(__name__)


class MetricsPort:
    """See the module. Building it opens the port, if the settings give one; StartupError."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._host = settings.host
        self._socket: socket.socket | None = None
        if settings.port is not None:
            self._socket = listen_on(settings.host, settings.port, PORT)

    @property
    def port(self) -> int | None:
        """The port that was opened; None without one."""
        return None if self._socket is None else int(self._socket.getsockname()[1])

    def serve(self, http: HttpServers, exposition: Exposition) -> None:
        """Begins to answer; nothing without a port."""
        if self._socket is None:
            return
        http.serve(create_metrics_application(exposition), [self._socket])
        log.info("Metrics without a login are at http://%s:%d%s", self._host or "*", self.port, PATH)


def exposition_settings(settings: MetricsSettings) -> ExpositionSettings:
    """Which series there are."""
    return ExpositionSettings(tuple(NameSet(each) for each in settings.names), Detail(settings.detail))
