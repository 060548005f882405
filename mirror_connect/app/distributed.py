"""The process of `connect-distributed.sh`: one worker, with its REST interface.

Spark's first application is launched before this module is imported (foreground.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.group_backing import GroupBacking
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.process import Process
from mirror_connect.app.rest_client import RestClient
from mirror_connect.app.rest_listeners import RestListeners
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.worker import Worker

log = logging.getLogger(__name__)


class DistributedWorker:
    """See the module. Building it opens the REST port; `run` returns after `stop`, or raises why it could not run.

    `forget_all_but` gets every minute the secrets that are in use. `launched`: Spark's first application; None: Spark is
    started when REST answers.
    """

    def __init__(
        self,
        config: WorkerConfig,
        forget_all_but: Callable[[Collection[str]], None],
        launched: LaunchedSpark | None = None,
    ) -> None:
        listeners = RestListeners(config)
        self._process = Process(config.spark, forget_all_but, launched, config.metrics, config.lookup_paths)
        self._url = listeners.url
        backing = GroupBacking(config, self._url, listeners.worker_id)
        self.worker = Worker(
            config,
            self._process.spark,
            backing,
            worker_id=listeners.worker_id,
            metrics=self._process.metrics.of_flow(""),
            link=WorkersLink(self._url, config.inter_worker, RestClient(config.client_tls)),
        )
        self._process.add(self.worker)
        listeners.serve_herder(self._process.http, self.worker.herder, self._process.exposition)

    def stop(self) -> None:
        """Begins the clean end."""
        self._process.stop()

    async def run(self) -> None:
        """From start to end. ConfigError, StartupError, ClusterUnreachable, NotAuthorized, GroupRefusedError."""
        await self._process.run(self._start)

    async def _start(self) -> None:
        await self.worker.start(self._process.start_spark)
        log.info("The worker is up; its REST interface is %s", self._url)
