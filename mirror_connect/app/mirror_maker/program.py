"""MirrorMaker 1 as one process: all its sources, with one Spark application and one target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from mirror_connect.app.config.metrics_settings import NO_PORT, MetricsSettings
from mirror_connect.app.errors import RecordsRefused
from mirror_connect.app.mirror_maker.client_files import SourceFile, TargetFile
from mirror_connect.app.mirror_maker.options import Options
from mirror_connect.app.mirror_maker.source import MirroredSource
from mirror_connect.app.mirror_maker.target_topics import TargetTopics
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.app.process import Process
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.connectors.log_format import log_flow
from mirror_connect.connectors.rights import PRODUCING_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)

ADMIN_S: Final = 30.0


class MirrorMaker:
    """See the module. `spark`: the properties spark.*; `forget_all_but` gets every minute the secrets that are in use.

    `launched`: Spark's first application, if it exists already.
    """

    def __init__(
        self,
        options: Options,
        sources: Sequence[SourceFile],
        target: TargetFile,
        spark: Mapping[str, str],
        forget_all_but: Callable[[Collection[str]], None],
        *,
        launched: LaunchedSpark | None = None,
        metrics: MetricsSettings = NO_PORT,
    ) -> None:
        self._aborts = options.abort_on_send_failure
        self._refused = asyncio.Event()
        self._refusal = ""
        self._process = Process(spark, forget_all_but, launched, metrics)
        choice = TopicChoice(options.expression, excludes=options.excludes)
        targets = TargetTopics(
            ClusterAdmin(target.producer, "the target cluster", timeout=ADMIN_S, user=PRODUCING_USER)
        )
        self._sources: dict[str, MirroredSource] = {}
        for file in sources:
            self._sources[file.name] = source = MirroredSource(
                file,
                target,
                choice,
                targets,
                self._process.spark,
                flow=file.name if len(sources) > 1 else "",
                commit_interval_ms=options.commit_interval_ms,
                skips_oversize=not options.abort_on_send_failure,
                aborted=self._abort,
                metrics=self._process.metrics.of_flow(file.name),
            )
            self._process.add(source)

    def stop(self) -> None:
        """Begins the clean end."""
        self._process.stop()

    async def run(self) -> None:
        """From start to end. Raises GroupRefusedError, NotAuthorized, ConfigError; RecordsRefused unless told otherwise."""
        await self._process.run(self._copy)

    async def _copy(self) -> None:
        """Ends only by an error."""
        await self._process.start_spark()
        copying = [asyncio.create_task(self._copy_source(name)) for name in self._sources]
        try:
            refused = asyncio.create_task(self._refused.wait())
            await asyncio.wait({*copying, refused}, return_when=asyncio.FIRST_COMPLETED)
            refused.cancel()
            for each in copying:
                if each.done():
                    each.result()
            raise RecordsRefused(self._refusal)
        finally:
            for each in copying:
                each.cancel()
            await asyncio.gather(*copying, return_exceptions=True)

    async def _copy_source(self, name: str) -> None:
        with log_flow(name if len(self._sources) > 1 else ""):
            await self._sources[name].run()

    def _abort(self, line: str) -> bool:
        """Ends the process because of refused records, if the user wants that; whether it ends."""
        if self._aborts and not self._refused.is_set():
            self._refusal = line
            self._refused.set()
        return self._aborts
