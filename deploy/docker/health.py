"""Where the health check finds the worker that a container becomes: the entry point writes it down, healthcheck.sh reads it.

A file of properties says it, and not the container's variables: of mounted files, Strimzi's and a dedicated MirrorMaker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from deploy.docker.conventions import write_private
from mirror_connect.app.config.listeners import parse_listeners
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.dedicated.mirror_maker_rules import parsed_list
from mirror_connect.connectors.errors import ConfigError

# Nothing serves REST: the container is healthy as long as it runs.
NOTHING: Final = "none"
_FILE: Final = Path("mirror-connect-container", "health-url")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_BY_COMMAND: Final = {
    "worker": "connect-distributed.sh",
    "standalone": "connect-standalone.sh",
    "mm2": "connect-mirror-maker.sh",
    "mm1": "kafka-mirror-maker.sh",
}
_WORKERS: Final = ("connect-distributed.sh", "connect-standalone.sh")


def leave_health_url(scratch: Path, command: Sequence[str]) -> None:
    """Writes it for a command that is known, and removes what another start has left for others."""
    path = scratch / _FILE
    url = health_url(command)
    if url:
        write_private(path, f"{url}\n")
    else:
        path.unlink(missing_ok=True)


def health_url(command: Sequence[str]) -> str:
    """The URL to ask, or NOTHING; empty if the command does not say it, as `bash` or a file that can't be read."""
    program, rest = Path(command[0]).name, list(command[1:])
    if program == "mirror-connect":
        program = _BY_COMMAND.get(rest.pop(0) if rest else "", "")
        if not program:
            return NOTHING
    if program == "kafka-mirror-maker.sh":
        return NOTHING
    file = next((each for each in rest if not each.startswith("-")), None)
    if file is None or program not in (*_WORKERS, "connect-mirror-maker.sh"):
        return ""
    try:
        properties = read_properties(file)
        if program in _WORKERS:
            return _of_listener(properties, "/health")
        # At the root all flows answer, whichever of them is up: a cluster that is away stops no other flow.
        return _of_listener(properties, "/") if _has_rest(properties) else NOTHING
    except ConfigError:
        return ""  # the worker says what is wrong


def _has_rest(properties: Mapping[str, str]) -> bool:
    return properties.get("dedicated.mode.enable.internal.rest", "").strip().lower() == "true"


def _of_listener(properties: Mapping[str, str], path: str) -> str:
    listeners = parse_listeners("listeners", parsed_list(properties.get("listeners", "http://:8083")))
    if not listeners:
        return NOTHING
    first = listeners[0]
    if first.port == 0:
        return NOTHING  # any port that is free
    return f"{replace(first, host='127.0.0.1') if first.host in _EVERY_ADDRESS else first}{path}"
