"""What a container starts: decides by its arguments and variables what runs, and becomes that. See docs/containers.md.

Usage: `python -m deploy.docker [run|strimzi|strimzi-mm2|executor|ARGUMENT …]`. Exit code 2: something is missing, said in
one line.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from deploy.docker import strimzi
from deploy.docker.conventions import BROKERS_TIMEOUT, Mistake, from_variables, properties_text, write_private
from deploy.docker.health import leave_health_url
from deploy.docker.spark_executor import EXECUTOR, executor_command
from mirror_connect.app.config.listeners import own_address
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.environment import SCRATCH_BYTES
from mirror_connect.connectors.errors import ConfigError

HOME: Final = Path(sys.prefix)
# For pods whose /tmp holds only a few MiB, as Strimzi's: made by the Dockerfile, for any user of the group root.
SCRATCH: Final = Path("/var/lib/mirror-connect")
TMP: Final = Path("/tmp")
CONFLUENTS_FILE: Final = Path("/etc/kafka-connect/kafka-connect.properties")
# Confluent's image waits so long for the brokers of CONNECT_BOOTSTRAP_SERVERS before it starts its worker.
WAIT_S: Final = 40.0
_RUN: Final = ("run", "start")


@dataclass(frozen=True, slots=True)
class Start:
    """What the container becomes: a command, with variables over those that there are. `notes` are for the log.

    `in_scratch`: it begins in the scratch directory, and not in that of the image, where it may not write.
    """

    command: list[str]
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)
    await_brokers: str = ""
    in_scratch: bool = False


def plan(arguments: Sequence[str], environment: Mapping[str, str], scratch: Path) -> Start:
    """What to start. `scratch`: a directory for a properties file made of variables. Mistake says what is missing."""
    first = arguments[0] if arguments else "run"
    if first in ("strimzi", "strimzi-mm2"):
        pod = strimzi.prepare(environment, stores=first == "strimzi-mm2")
        return Start([_script("connect-distributed.sh"), str(pod.properties)], pod.variables, pod.notes)
    if first == EXECUTOR:
        return Start(executor_command(environment), in_scratch=True)
    if first in _RUN and len(arguments) <= 1:
        return _by_variables(environment, scratch)
    if first.endswith(".properties"):
        return _by_files(arguments)
    # mirror-connect's own commands, then any other: a shell, or a script of one's own that starts the worker.
    if first.startswith("-") or (shutil.which(first) is None and "/" not in first):
        return Start([str(HOME / "bin" / "mirror-connect"), *arguments])
    return Start(list(arguments))


def _by_variables(environment: Mapping[str, str], scratch: Path) -> Start:
    given = from_variables(environment, own_address())
    if given is None:
        if CONFLUENTS_FILE.is_file():
            return _by_files([str(CONFLUENTS_FILE)])
        raise Mistake(
            "nothing says which cluster to use: set CONNECT_BOOTSTRAP_SERVERS and the others (docs/containers.md), or "
            "mount a worker.properties or mm2.properties and name it as the container's command"
        )
    file = scratch / "mirror-connect-container" / "worker.properties"
    write_private(file, properties_text(given.properties))
    notes = [f"The worker's properties are from variables by {given.convention} convention", *given.notes]
    brokers = given.properties["bootstrap.servers"] if given.convention == "Confluent's" else ""
    return Start([_script("connect-distributed.sh"), str(file)], given.variables, notes, brokers)


def _by_files(files: Sequence[str]) -> Start:
    """A dedicated MirrorMaker's file names its clusters; a standalone worker has connectors' files behind its own."""
    try:
        properties = read_properties(files[0])
    except ConfigError as error:
        raise Mistake(str(error)) from None
    if properties.get("clusters", "").strip():
        return Start([_script("connect-mirror-maker.sh"), *files])
    # Connectors of a standalone worker may all come by REST. Its own file has the offset file, and no group.
    alone = len(files) > 1 or ("group.id" not in properties and "offset.storage.file.filename" in properties)
    return Start([_script("connect-standalone.sh" if alone else "connect-distributed.sh"), *files])


def _script(name: str) -> str:
    path = HOME / "bin" / name
    if not path.exists():
        raise Mistake(f"this image has no {path}: it is older than what it is asked to start")
    return str(path)


def scratch_directory(environment: Mapping[str, str], prepared: Path = SCRATCH) -> Path:
    """Where Spark's scratch files have room: TMPDIR or /tmp, or else what the image has for that.

    Without room anywhere the first that can be written: the worker says how much it needs. Mistake: there is none.
    """
    named = environment.get("TMPDIR")
    places = [each for each in (*([Path(named)] if named else []), TMP, prepared) if os.access(each, os.W_OK)]
    if not places:
        raise Mistake(f"nothing can be written: with a read-only root file system mount a volume at {TMP} or {SCRATCH}")
    return next((each for each in places if shutil.disk_usage(each).free >= SCRATCH_BYTES), places[0])


def wait_for_brokers(servers: str, wait_s: float, clock: Callable[[], float] = time.monotonic) -> bool:
    """Whether one of the addresses takes a connection within so many seconds."""
    until = clock() + wait_s
    while True:
        for address in servers.split(","):
            host, _, port = address.strip().rpartition(":")
            try:
                with socket.create_connection((host.rpartition("://")[2].strip("[]"), int(port)), timeout=2):
                    return True
            except (OSError, ValueError):
                continue
        if clock() >= until:
            return False
        time.sleep(0.5)


def _patience_s(environment: Mapping[str, str]) -> float:
    given = environment.get(BROKERS_TIMEOUT) or str(WAIT_S)
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", given, re.ASCII):
        raise Mistake(f"{BROKERS_TIMEOUT}={given} is no number of seconds: correct it or leave it out")
    return float(given)


def main() -> NoReturn:
    """Entry point."""
    try:
        scratch = scratch_directory(os.environ)
        start = plan(sys.argv[1:], os.environ, scratch)
        for note in start.notes:
            print(f"mirror-connect: {note}", file=sys.stderr)
        leave_health_url(scratch, start.command)
        if start.await_brokers and not wait_for_brokers(start.await_brokers, _patience_s(os.environ)):
            print(f"mirror-connect: no broker answers at {start.await_brokers} yet", file=sys.stderr)
        if start.in_scratch:
            os.chdir(scratch)
        sys.stderr.flush()
        os.execvpe(start.command[0], start.command, {**os.environ, "TMPDIR": str(scratch), **start.variables})
    except Mistake as error:
        print(f"mirror-connect: {error}", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"mirror-connect: the container can't start: {error}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
