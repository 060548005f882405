"""The settings of a dedicated process and of each flow's worker, out of the flows of its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.app.config.worker_config import WorkerConfig, worker_config
from mirror_connect.app.dedicated.flows import Flow, Mm2Config

_OF_CLIENTS: Final = ("ssl.", "sasl.", "security.", "producer.", "consumer.", "admin.")


def process_properties(of_file: Mapping[str, str], flow: Flow) -> dict[str, str]:
    """The worker's properties that the process has, as written. `of_file`: Mm2Config.process; `flow`: the first one."""
    # There is no /admin, as in MirrorMaker.
    own = {name: value for name, value in of_file.items() if name != "admin.listeners"}
    # The process has no clients. Its listeners take the file's own ssl.* (RestServerConfig of the file), and no cluster's.
    worker = {name: value for name, value in flow.worker.items() if not name.startswith(_OF_CLIENTS)}
    return {**worker, **own}


def flow_configs(config: Mm2Config) -> dict[str, WorkerConfig]:
    """The settings of each flow's worker, by the flow's name. ConfigError. The file's reader has given the warnings."""
    return {flow.name: worker_config(flow.worker, warnings=False) for flow in config.flows}


def process_config(config: Mm2Config) -> WorkerConfig:
    """The settings of the process: Spark, plugins, REST. ConfigError."""
    return worker_config(process_properties(config.process, config.flows[0]), warnings=False)
