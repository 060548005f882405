"""The process of `connect-mirror-maker.sh`: all flows of a file, with one Spark application.

It ends only when it is asked to, or if no flow at all could be started. A flow that can't be started is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.types import ASGIApp

from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.dedicated.flow_links import FlowLinks
from mirror_connect.app.dedicated.flow_rest import FlowsApplication, flow_path
from mirror_connect.app.dedicated.flow_runner import FlowRunner
from mirror_connect.app.dedicated.flows import Flow, Mm2Config
from mirror_connect.app.process import Process
from mirror_connect.app.rest.application import (
    Surface,
    create_application,
    create_links_application,
    create_metrics_of_flows,
    with_headers,
)
from mirror_connect.app.rest_client import RestClient
from mirror_connect.app.rest_listeners import RestListeners
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.connectors.errors import ClusterUnreachable

log = logging.getLogger(__name__)

# As long as a worker waits for a cluster that is away. One that is slow has answered, and fails each flow sooner.
GIVE_UP_S: Final = 60.0
THREADS: Final = 8
THREADS_OF_A_FLOW: Final = 4


class DedicatedMirrorMaker:
    """See the module. Building it opens the ports of the internal REST; `run` returns after `stop`.

    `configs`: of each flow's worker, by the flow's name; `process_config`: of the process. See process_configs.py.
    `launched`: Spark's first application; None: Spark is started when the first flow can answer.
    """

    def __init__(
        self,
        config: Mm2Config,
        process_config: WorkerConfig,
        configs: Mapping[str, WorkerConfig],
        forget_all_but: Callable[[Collection[str]], None],
        launched: LaunchedSpark | None = None,
    ) -> None:
        listeners = RestListeners(process_config) if config.internal_rest else None
        self._process = Process(
            process_config.spark, forget_all_but, launched, process_config.metrics, process_config.lookup_paths
        )
        self._settled = asyncio.Event()
        self._client = None if listeners is None else RestClient(process_config.client_tls)
        self.flows = [self._runner(flow, configs[flow.name], config.path, listeners) for flow in config.flows]
        for runner in self.flows:
            self._process.add(runner)
        if listeners is not None:
            served = {
                each.flow.name: (flow_path(each.flow.source, each.flow.target), _ApplicationOf(each, listeners))
                for each in self.flows
            }
            links = create_links_application(
                FlowLinks(self.flows, listeners.worker_id), listeners.checks, listeners.surface
            )
            metrics = create_metrics_of_flows(self._process.exposition, listeners.checks)
            application = FlowsApplication(served, listeners.checks, links, metrics)
            listeners.serve(self._process.http, with_headers(application, listeners.surface), read_only=True)

    def _runner(self, flow: Flow, config: WorkerConfig, path: str, listeners: RestListeners | None) -> FlowRunner:
        if listeners is None:
            # As MirrorMaker names a node that serves no REST.
            random = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            worker_id = url = f"{socket.gethostname()}/{flow.name}/{random}"
        else:
            worker_id = f"{listeners.worker_id}/{flow.name}"
            url = listeners.url + flow_path(flow.source, flow.target)
        return FlowRunner(
            flow,
            config,
            spark=self._process.spark,
            start_spark=self._process.start_spark,
            settled=self._settled.set,
            worker_id=worker_id,
            url=url,
            path=path,
            metrics=self._process.metrics.of_flow(flow.name),
            client=self._client,
        )

    def stop(self) -> None:
        """Begins the clean end."""
        self._process.stop()

    async def run(self) -> None:
        """From start to end. Raises why the first flow could not be started, if none could."""
        await self._process.run(self._start)

    async def _start(self) -> None:
        # Each step of a start that waits for a cluster has a thread. Those of clusters that are away must not take all of
        # the loop's, which the other flows need.
        threads = ThreadPoolExecutor(max_workers=THREADS + THREADS_OF_A_FLOW * len(self.flows))
        asyncio.get_running_loop().set_default_executor(threads)
        for runner in self.flows:
            runner.start()
        give_up = asyncio.get_running_loop().time() + GIVE_UP_S
        while not any(runner.up for runner in self.flows):
            problems = [runner.problem for runner in self.flows if runner.problem is not None]
            if len(problems) == len(self.flows) and _hopeless(problems, give_up):
                raise problems[0]
            self._settled.clear()
            await self._settled.wait()
        log.info("MirrorMaker is up with %s", ", ".join(runner.flow.name for runner in self.flows if runner.up))


def _hopeless(problems: Sequence[Exception], give_up: float) -> bool:
    """Whether flows that have all failed are not worth waiting for: all refused, or away for so long."""
    unreachable = any(isinstance(problem, ClusterUnreachable) for problem in problems)
    return not unreachable or asyncio.get_running_loop().time() >= give_up


class _ApplicationOf:
    """The REST interface of a flow's present worker; a flow that is started again has another one."""

    def __init__(self, runner: FlowRunner, listeners: RestListeners) -> None:
        self._runner = runner
        self._listeners = listeners
        self._made: tuple[object, ASGIApp] | None = None

    def __call__(self) -> ASGIApp | None:
        worker = self._runner.worker
        if worker is None:
            return None
        if self._made is None or self._made[0] is not worker:
            whole = self._listeners.surface
            surface = Surface(admin=False, docs=False, ui=whole.ui, read_only=True, budget=whole.budget)
            self._made = (worker, create_application(worker.herder, self._listeners.checks, surface))
        return self._made[1]
