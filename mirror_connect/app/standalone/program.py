"""The process of `connect-standalone.sh`: one worker, whose connectors are those of its files and what REST adds.

REST and Spark start as in distributed mode. Then the connectors of the files are created, one after the other. As in Kafka
the process ends if one of them is refused or does not start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from mirror_connect.app.errors import ConnectError, ConnectorFileRefused
from mirror_connect.app.process import Process
from mirror_connect.app.rest_listeners import RestListeners
from mirror_connect.app.standalone.connector_files import ConnectorFile
from mirror_connect.app.standalone.file_backing import FileBacking
from mirror_connect.app.standalone.file_lock import OffsetFileLock
from mirror_connect.app.standalone.standalone_config import StandaloneConfig
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.worker import Worker
from mirror_connect.connectors.log_format import ConnectorName

log = logging.getLogger(__name__)


class StandaloneWorker:
    """See the module. Building it locks the offset file and opens the REST port; `run` returns after `stop`.

    `files`: those of the connectors, read before. `forget_all_but` gets every minute the secrets that are in use.
    `launched`: Spark's first application; None: Spark is started when REST answers.
    """

    def __init__(
        self,
        config: StandaloneConfig,
        files: Sequence[ConnectorFile],
        forget_all_but: Callable[[Collection[str]], None],
        launched: LaunchedSpark | None = None,
    ) -> None:
        self._files = files
        self._lock = OffsetFileLock(config.offsets_file)
        killed = self._lock.take()
        try:
            listeners = RestListeners(config)
        except BaseException:
            self._lock.release(killed=killed)
            raise
        self._url = listeners.url
        self._process = Process(config.spark, forget_all_but, launched, config.metrics, config.lookup_paths)
        backing = FileBacking(config.offsets_file, config.offset_flush_interval_ms, self._url, after_a_kill=killed)
        self._membership = backing.membership
        self.worker = Worker(
            config,
            self._process.spark,
            backing,
            worker_id=listeners.worker_id,
            standalone=True,
            metrics=self._process.metrics.of_flow(""),
        )
        self._process.add(self.worker)
        listeners.serve_herder(self._process.http, self.worker.herder, self._process.exposition)

    def stop(self) -> None:
        """Begins the clean end."""
        self._process.stop()

    async def run(self) -> None:
        """From start to end. ConfigError, StartupError, ClusterUnreachable, NotAuthorized, ConnectorFileRefused."""
        try:
            await self._process.run(self._start)
        finally:
            self._lock.release(killed=not self._membership.leads_for())

    async def _start(self) -> None:
        self.worker.herder.creating = True
        await self.worker.start(self._process.start_spark)
        log.info("The worker is up; its REST interface is %s", self._url)
        for file in self._files:
            await self._create(file)
        self.worker.herder.creating = False

    async def _create(self, file: ConnectorFile) -> None:
        try:
            await self.worker.herder.configs.create(file.name, file.config, file.initial_state)
        except ConnectError as error:
            raise ConnectorFileRefused(file.path, error.line) from error
        log.info("Created connector %s of %s", ConnectorName(file.name), file.path)
