"""The settings that a process of dedicated mode starts with. A wrong key store or listener is told with its line.

mm2_file.py refuses what a file alone shows. Here the key stores and logins of workers and listeners are read, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirror_connect.app.config.worker_config import WorkerConfig, worker_config
from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding, RefusedFile
from mirror_connect.app.dedicated.flows import Mm2Config
from mirror_connect.app.dedicated.mm2_file import config_of
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.process_configs import process_config
from mirror_connect.app.dedicated.value_checks import plain_problem
from mirror_connect.connectors.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StartSettings:
    """`process`: Spark, plugins, REST. `flows`: of each flow's worker, by the flow's name."""

    config: Mm2Config
    process: WorkerConfig
    flows: dict[str, WorkerConfig]


def start_settings(file: Mm2Properties) -> StartSettings:
    """Of a file that has been read. RefusedFile has a line for each property that is wrong."""
    config = config_of(file)
    wrong: dict[str, Mm2Finding] = {}

    def made(make: Callable[[], WorkerConfig], origin: Callable[[str], str | None]) -> WorkerConfig | None:
        try:
            return make()
        except ConfigError as error:
            finding = _finding(file, error, origin(error.name) or "")
            wrong.setdefault(finding.name or finding.text, finding)
            return None

    flows = {
        flow.name: made(
            lambda flow=flow: worker_config(flow.worker, warnings=False),  # type: ignore[misc]
            lambda name, flow=flow: file.origin_in_worker(flow.target, name),  # type: ignore[misc]
        )
        for flow in config.flows
    }
    process = made(lambda: process_config(config), lambda name: name if name in config.process else None)
    if process is None or wrong:
        raise RefusedFile(wrong.values())
    return StartSettings(config, process, {name: flow for name, flow in flows.items() if flow is not None})


def _finding(file: Mm2Properties, error: ConfigError, at: str) -> Mm2Finding:
    text = plain_problem(str(error), error.name, at, file) if at else str(error)
    return file.error(FindingCode.VALUE_INVALID, at, text)
