"""The public HTTP of a process: `listeners` and `admin.listeners` of its properties, opened first, with what they serve."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import replace

from starlette.types import ASGIApp

from mirror_connect.app.config.common_config import CommonConfig
from mirror_connect.app.config.listeners import Listener
from mirror_connect.app.environment import listen_on
from mirror_connect.app.exposition.exposition import Exposition
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.application import Surface, create_admin_application, create_application
from mirror_connect.app.rest.basic_auth import authenticators
from mirror_connect.app.rest.body_budget import BodyBudget
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.kafka_io.client.addresses import is_loopback

log = logging.getLogger(__name__)


class RestListeners:
    """See the module. Building it opens the ports; StartupError, ConfigError.

    `worker_id` is host:port of the advertised address, and `url` is that address.
    """

    def __init__(self, config: CommonConfig) -> None:
        self._config = config
        # Before anything else: the user can fix at once what is wrong here.
        self.checks = authenticators(config.rest_extension_classes, os.environ)
        self._admin_listeners = config.admin_listeners or ()
        self._sockets = [listen_on(each.host, each.port, "listeners") for each in config.listeners]
        self._admin_sockets = [listen_on(each.host, each.port, "admin.listeners") for each in self._admin_listeners]
        ports = [int(listener.getsockname()[1]) for listener in self._sockets]
        self.worker_id = config.worker_id(ports)
        self.url = str(config.advertised_url(ports))
        self.surface = Surface(
            admin=config.admin_listeners is None,
            docs=config.rest_docs_enabled,
            refuses_writes=config.rest_read_only,
            ui=config.rest_ui_enabled,
            header_rules=config.response_headers,
            cross_origins=config.cross_origins,
            budget=BodyBudget(),
        )

    def serve_herder(self, http: HttpServers, herder: Herder, exposition: Exposition) -> None:
        """Serves Kafka Connect's REST interface of one herder, and the metrics of its process."""
        self.serve(
            http,
            create_application(herder, self.checks, replace(self.surface, exposition=exposition)),
            create_admin_application(herder, self.checks, self.surface),
            read_only=self.surface.refuses_writes,
        )

    def serve(
        self, http: HttpServers, application: ASGIApp, admin: ASGIApp | None = None, *, read_only: bool = False
    ) -> None:
        """Serves an application, and another one at admin.listeners. `read_only`: the application changes nothing."""
        config = self._config
        _serve(http, application, config.listeners, self._sockets, config.tls)
        if admin is not None:
            _serve(http, admin, self._admin_listeners, self._admin_sockets, config.admin_tls)
        log.info("REST listens at %s", _bound(config.listeners, self._sockets))
        if not self.checks and (exposed := _exposed([*config.listeners, *self._admin_listeners])):
            log.warning(
                "Anyone who can reach %s may %s logins in connector configs: REST has no login and no encryption. "
                "Set rest.extension.classes for a login, or listeners to an address like 127.0.0.1",
                exposed,
                "read everything here, also" if read_only else "do anything here, also read",
            )
        if config.admin_listeners is not None:
            log.info("REST has /admin at %s only", _bound(self._admin_listeners, self._admin_sockets) or "no listener")


def _serve(
    http: HttpServers,
    application: ASGIApp,
    listeners: Sequence[Listener],
    sockets: Sequence[socket.socket],
    tls: ssl.SSLContext | None,
) -> None:
    for scheme, context in (("http", None), ("https", tls)):
        of_scheme = [own for each, own in zip(listeners, sockets, strict=True) if each.scheme == scheme]
        http.serve(application, of_scheme, context)


def _exposed(listeners: Sequence[Listener]) -> str:
    """The plain http listeners that other machines can reach. A listener without a host is on every address."""
    return ", ".join(str(each) for each in listeners if each.scheme == "http" and not is_loopback(each.host))


def _bound(listeners: Sequence[Listener], sockets: Sequence[socket.socket]) -> str:
    """The listeners with the ports that they got."""
    ports = [int(own.getsockname()[1]) for own in sockets]
    return ", ".join(str(replace(each, port=port)) for each, port in zip(listeners, ports, strict=True))
