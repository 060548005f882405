"""The settings of a dedicated process and of each flow's worker, out of the flows of its file."""

from __future__ import annotations

from typing import Final

from mirror_connect.app.config.worker_config import WorkerConfig, worker_config
from mirror_connect.app.dedicated.flows import Mm2Config

_OF_CLIENTS: Final = ("ssl.", "sasl.", "security.", "producer.", "consumer.", "admin.")


def flow_configs(config: Mm2Config) -> dict[str, WorkerConfig]:
    """The settings of each flow's worker, by the flow's name. ConfigError. The file's reader has given the warnings."""
    return {flow.name: worker_config(flow.worker, warnings=False) for flow in config.flows}


def process_config(config: Mm2Config) -> WorkerConfig:
    """The settings of the process: Spark, plugins, REST. ConfigError."""
    # There is no /admin, as in MirrorMaker.
    own = {name: value for name, value in config.process.items() if name != "admin.listeners"}
    # The process has no clients. Its listeners take the file's own ssl.* (RestServerConfig of the file), and no cluster's.
    worker = {name: value for name, value in config.flows[0].worker.items() if not name.startswith(_OF_CLIENTS)}
    return worker_config({**worker, **own}, warnings=False)
