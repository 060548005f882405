"""One worker: builds every part, starts the parts in order, and ends them in the reverse order.

The worker opens the REST port first. Then it joins the group and, at the same time, reads or creates the internal topics.
It starts Spark when REST can answer, because Spark uses all cores of a small machine. Only the group's leader writes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from starlette.types import ASGIApp

from mirror_connect.app.config.listeners import Listener
from mirror_connect.app.config.worker_config import StorageTopic, WorkerConfig
from mirror_connect.app.environment import listen_on
from mirror_connect.app.herder.active_topics import TopicTracking
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.membership import MARGIN_SECONDS, Membership
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.rest.application import Surface, create_admin_application, create_application
from mirror_connect.app.rest.basic_auth import authenticators
from mirror_connect.app.rest.body_budget import BodyBudget
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.app.supervisor.internal_api import create_internal_application
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore
from mirror_connect.app.worker_connectors.target_choice import Target, TargetChooser
from mirror_connect.app.worker_connectors.task_specs import TaskSpecs
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.rights import PRODUCING_USER, WORKER_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter

log = logging.getLogger(__name__)
T = TypeVar("T")

UNREACHABLE_GIVE_UP_S: Final = 60.0
RETRY_S: Final = 1.0
TASKS_PATIENCE_S: Final = 3.0
STATUS_PATIENCE_S: Final = 1.0
STEP_PATIENCE_S: Final = 1.5
# For all last steps together that need the worker's own cluster: an unreachable cluster must not delay each of them.
CLUSTER_PATIENCE_S: Final = 1.5
LEAST_PATIENCE_S: Final = 0.3
FORGET_S: Final = 60.0


class Worker:
    """See the module. Building it opens the REST port; `run` returns after `stop`, or raises why it could not run.

    `forget_all_but` gets every minute the secrets that are in use.
    """

    def __init__(self, config: WorkerConfig, forget_all_but: Callable[[Collection[str]], None]) -> None:
        self._config = config
        self._forget_all_but = forget_all_but
        self._stopped = asyncio.Event()
        self._http = HttpServers()
        # Before anything else: the user can fix at once what is wrong here.
        checks = authenticators(config.rest_extension_classes, os.environ)
        listeners = [listen_on(each.host, each.port, "listeners") for each in config.listeners]
        admin_listeners = config.admin_listeners or ()
        admins = [listen_on(each.host, each.port, "admin.listeners") for each in admin_listeners]

        ports = [int(listener.getsockname()[1]) for listener in listeners]
        self._worker_id = config.worker_id(ports)
        self._url = str(config.advertised_url(ports))

        self._membership = Membership.of(
            config.own_client("consumer"),
            config.group_id,
            self._url,
            client_id=config.client_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            on_change=lambda _: self._herder.membership_changed(),
        )
        self._lease = WorkerLease(self._membership.leads_for, config.session_timeout_ms / 1000 - MARGIN_SECONDS)
        self._clients = LogClients(config.own_client("producer"), config.client_id, self._lease)
        # The name is Kafka Connect's, so that a leader of either kind fences one of the other kind.
        leader_id = f"connect-cluster-{config.group_id}"
        leader = LeaderWriter(leader_id, lambda: LeaderProducer(self._clients, leader_id), self._clients, self._lease)
        self._configs_log = KafkaTopicLog(self._clients, _config_plan(config.config_storage), leader)
        self._statuses_log = KafkaTopicLog(self._clients, _status_plan(config.status_storage))
        self._offsets_log = KafkaTopicLog(self._clients, _offset_plan(config.offset_storage))
        self._configs = ConfigStore(self._configs_log)
        self._statuses = StatusStore(self._statuses_log)
        self._offsets = OffsetStore(self._offsets_log)
        targets = TargetChooser(config)
        self._stores = OffsetStores(lambda: OpenStore(self._offsets, self._offsets_log.partitions), self._open_other)
        specs = TaskSpecs(config, config.resolver.resolve, targets, self._stores)
        self._supervisor = Supervisor(config.spark, specs, self._membership.leads_for)
        self._herder = Herder(
            configs=self._configs,
            statuses=self._statuses,
            membership=self._membership,
            supervisor=self._supervisor,
            new_connector=WorkerConnectorFactory(
                targets, specs.offsets_of, lambda name: self._configs.snapshot().tasks(name)
            ),
            resolver=config.resolver,
            worker_id=self._worker_id,
            offsets_of=specs.offsets_of,
            topic_tracking=TopicTracking(config.topic_tracking_enable, config.topic_tracking_allow_reset),
            rules=ConfigRules(
                OverridePolicy.of(config.override_policy, config.override_allowlist),
                config.offset_topic,
                targets.errors,
                config.converters,
            ),
        )
        surface = Surface(
            admin=config.admin_listeners is None,
            docs=config.rest_docs_enabled,
            header_rules=config.response_headers,
            cross_origins=config.cross_origins,
            budget=BodyBudget(),
        )
        self._serve(create_application(self._herder, checks, surface), config.listeners, listeners, config.tls)
        self._serve(
            create_admin_application(self._herder, checks, surface.budget), admin_listeners, admins, config.admin_tls
        )
        log.info("REST listens at %s", _bound(config.listeners, listeners))
        if not checks and (exposed := _exposed([*config.listeners, *admin_listeners])):
            log.warning(
                "Anyone who can reach %s may do anything here, also read logins in connector configs: REST has no login and "
                "no encryption. Set rest.extension.classes for a login, or listeners to an address like 127.0.0.1",
                exposed,
            )
        if config.admin_listeners is not None:
            log.info("REST has /admin at %s only", _bound(admin_listeners, admins) or "no listener")

    def stop(self) -> None:
        """Begins the clean end."""
        self._stopped.set()

    async def run(self) -> None:
        """From start to end. ConfigError, StartupError, ClusterUnreachable, NotAuthorized, GroupRefusedError."""
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stopped.wait())
        forgetting = asyncio.create_task(forget_unused(self._secrets, self._forget_all_but))
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
        finally:
            for each in (starting, stopping, forgetting):
                each.cancel()
            await asyncio.gather(starting, stopping, forgetting, return_exceptions=True)
            await self._end()

    async def _secrets(self) -> frozenset[str]:
        return await self._herder.secrets() | self._supervisor.secrets()

    # --- start ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        cluster_id = await self._patiently(self._cluster_id)
        # Reads need not wait for the group: the broker delays its first member by group.initial.rebalance.delay.ms (3 s by
        # default), and after a kill of this worker by 10 s. Connect, too, creates its topics before it joins.
        async with asyncio.TaskGroup() as together:
            together.create_task(self._membership.join())
            together.create_task(self._begin_to_answer(cluster_id))
        self._herder.membership_changed()
        log.info("The worker is up; its REST interface is %s", self._url)

    async def _begin_to_answer(self, cluster_id: str) -> None:
        async with asyncio.TaskGroup() as together:
            for store in (self._configs, self._statuses, self._offsets):
                together.create_task(store.start())
        self._herder.start(cluster_id)
        internal = listen_on("127.0.0.1", 0, "the internal HTTP")
        # Any number of connections: only tasks with tokens connect, with two each.
        self._http.serve(create_internal_application(self._supervisor), [internal], most_connections=None)
        await self._supervisor.start(f"http://127.0.0.1:{internal.getsockname()[1]}")

    def _admin(self) -> ClusterAdmin:
        return ClusterAdmin(self._config.own_client("admin"), "the worker's cluster", timeout=10.0, user=WORKER_USER)

    async def _cluster_id(self) -> str:
        return await asyncio.to_thread(lambda: self._admin().cluster_id())

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
        """Retries a first step for a minute while brokers are down: they may be starting too."""
        give_up = asyncio.get_running_loop().time() + UNREACHABLE_GIVE_UP_S
        logged = False
        while True:
            try:
                return await step()
            except ClusterUnreachable as error:
                if asyncio.get_running_loop().time() > give_up:
                    raise
                if not logged:
                    log.warning("%s. The worker tries again for %d s and then gives up", error, UNREACHABLE_GIVE_UP_S)
                logged = True
            await asyncio.sleep(RETRY_S)

    async def _open_other(self, target: Target) -> OpenStore:
        """The offset topic on another cluster that a connector writes to."""
        clients = LogClients(target.producer, self._config.client_id, self._lease, PRODUCING_USER)
        log_there = KafkaTopicLog(clients, _offset_plan(self._config.offset_storage))
        store = OffsetStore(log_there)

        async def close() -> None:
            await store.stop()
            await asyncio.to_thread(clients.close)

        try:
            await store.start()
        except BaseException:
            await asyncio.to_thread(clients.close)
            raise
        return OpenStore(store, log_there.partitions, close)

    def _serve(
        self,
        application: ASGIApp,
        listeners: Sequence[Listener],
        sockets: Sequence[socket.socket],
        tls: ssl.SSLContext | None,
    ) -> None:
        for scheme, context in (("http", None), ("https", tls)):
            of_scheme = [own for each, own in zip(listeners, sockets, strict=True) if each.scheme == scheme]
            self._http.serve(application, of_scheme, context)

    # --- end --------------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Ends tasks, writes the last statuses, then leaves the group: the next leader finds all that was written."""
        herder, supervisor = self._herder, self._supervisor
        await self._within(herder.stop_connectors(), "stopping the connectors")
        await self._within(supervisor.stop(TASKS_PATIENCE_S), "stopping the tasks", TASKS_PATIENCE_S + 2.0)
        until = asyncio.get_running_loop().time() + CLUSTER_PATIENCE_S
        await self._within(herder.stop(STATUS_PATIENCE_S), "writing the last statuses")
        await self._within(self._membership.leave(), "leaving the group", self._left(until))
        stores = (self._configs, self._statuses, self._offsets, self._stores)
        closing = (
            *(store.stop() for store in stores),
            asyncio.to_thread(self._clients.close, self._left(until)),
            self._http.end(),
        )
        await self._within(asyncio.gather(*closing), "closing")

    def _left(self, until: float) -> float:
        return max(LEAST_PATIENCE_S, until - asyncio.get_running_loop().time())

    async def _within(self, step: Awaitable[object], what: str, patience_s: float = STEP_PATIENCE_S) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await step
        except TimeoutError:
            log.warning("%s took longer than %.1f s; continuing", what.capitalize(), patience_s)
        except Exception:
            log.exception("%s failed; continuing", what.capitalize())


async def forget_unused(
    in_use: Callable[[], Awaitable[Collection[str]]],
    forget_all_but: Callable[[Collection[str]], None],
    every_s: float = FORGET_S,
) -> None:
    """Forgets unused secrets, or the password of a deleted connector would hide words of the log for ever."""
    while True:
        await asyncio.sleep(every_s)
        try:
            forget_all_but(await in_use())
        except Exception:
            log.exception(
                "A bug: secrets no longer in use stay redacted in the log. The worker tries again in %g s", every_s
            )


def _exposed(listeners: Sequence[Listener]) -> str:
    """The plain http listeners that other machines can reach. A listener without a host is on every address."""
    return ", ".join(str(each) for each in listeners if each.scheme == "http" and not _is_loopback(each.host))


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bound(listeners: Sequence[Listener], sockets: Sequence[socket.socket]) -> str:
    """The listeners with the ports that they got."""
    ports = [int(own.getsockname()[1]) for own in sockets]
    return ", ".join(str(replace(each, port=port)) for each, port in zip(listeners, ports, strict=True))


def _config_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_configs(topic.name, topic.replication_factor, topic.configs)


def _status_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_statuses(topic.name, topic.partitions, topic.replication_factor, topic.configs)


def _offset_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_offsets(topic.name, topic.partitions, topic.replication_factor, topic.configs)
