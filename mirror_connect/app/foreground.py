"""Runs a program of this package in the foreground: its log on standard error, its signals, its exit code.

Exit codes: 0 stopped as asked; 2 wrong usage or settings; 3 this machine lacks something (Java, room, a free port), or a
connector's file can't be used; 4 a cluster refuses this worker (credentials, group.id held by others), refuses records, or
can't be reached; 1 a bug, or an end of more than 9 s.
The last line on standard error says what went wrong; stack traces are logged only for bugs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from logging.handlers import MemoryHandler
from typing import Final, NoReturn, Protocol

import uvloop

from mirror_connect.app.config.common_config import CommonConfig
from mirror_connect.app.config.kafka_environment import notices
from mirror_connect.app.config.task_listener import ANY, TaskListener
from mirror_connect.app.end_signals import end_on_signals, keep_signals
from mirror_connect.app.environment import allow_open_files, check_java, check_scratch, leave_no_core
from mirror_connect.app.errors import ConnectorFileRefused, RecordsRefused, StartupError, first_cause
from mirror_connect.app.json_log import JsonFormatter, SubjectFilter, json_line
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, GroupRefusedError, NotAuthorized
from mirror_connect.connectors.log_format import JSON, TEXT, LineFormatter, asked_format, asked_level, one_line
from mirror_connect.connectors.secrets import RedactingFilter, secrets_of
from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.connectors.user_code.user_class import PLUGIN_MODULES, PLUGIN_PATH
from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.connectors.wording import likely_name

log = logging.getLogger("mirror_connect.app")

OK, MISTAKE, WRONG_SETTINGS, MACHINE, CLUSTER = range(5)
# Whatever hangs, a worker that was asked to stop is gone within ten seconds.
LAST_RESORT_S: Final = 9.0
# mirror-connect-start.sh reads these, up to the first argument that is none of them.
_OF_THE_SCRIPTS: Final = ("-daemon", "-name", "-loggc")
# Lines of the start that wait for the settings.
_MOST_HELD: Final = 1_000
_HELP: Final = ("-h", "--help")
EXIT_CODES: Final[Mapping[type[Exception], int]] = {
    ConfigError: WRONG_SETTINGS,
    StartupError: MACHINE,
    ClusterUnreachable: CLUSTER,
    NotAuthorized: CLUSTER,
    GroupRefusedError: CLUSTER,
    RecordsRefused: CLUSTER,
    # As Kafka's connect-standalone.sh.
    ConnectorFileRefused: MACHINE,
}


class Program(Protocol):
    """What runs: made on the loop."""

    def stop(self) -> None:
        """Begins the clean end."""

    async def run(self) -> None:
        """From start to end; returns after `stop`."""


class WrongUsage(Exception):
    """The arguments on the command line are wrong; the text says how to use the program."""


def unknown_option(usage: str, arguments: Sequence[str], known: Collection[str] = ()) -> WrongUsage | None:
    """WrongUsage that names the first option that is not `known`; None if there is none."""
    given = itertools.takewhile(lambda each: each != "--", arguments)
    unknown = (each for each in (each.partition("=")[0] for each in given) if each.startswith("-"))
    name = next((each for each in unknown if each not in (*known, *_HELP)), None)
    if name is None:
        return None
    if name in _OF_THE_SCRIPTS:
        return WrongUsage(f"{usage}: {name} is an option of the start scripts, where it comes first")
    meant = likely_name(name, (*known, *_OF_THE_SCRIPTS))
    return WrongUsage(f"{usage}: there is no option {name}{f'; did you mean {meant}?' if meant else ''}")


class WrongSettings(Exception):
    """Settings are wrong in several places: a line for each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The settings are read: `spark` are those of Spark, which is launched next. Then `make` makes the program, on the loop.

    `tasks`: where executors on a cluster reach the worker.
    `log_format`: what the settings say; MIRROR_CONNECT_LOG_FORMAT wins.

    `make` imports most of the program. Spark comes up meanwhile.
    """

    spark: Mapping[str, str]
    make: Callable[[LaunchedSpark], Program]
    log_format: str = TEXT
    tasks: TaskListener = ANY


# Reads the program's arguments and settings.
Prepare = Callable[[Sequence[str], RedactingFilter], Prepared]


def main_of(prepare: Prepare) -> NoReturn:
    """Runs a program to its end, and ends the process with its exit code."""
    hide_memory()
    code = _run_to_the_end(prepare, RedactingFilter())
    logging.shutdown()
    # Not sys.exit: it waits for every thread, and one may be in a call to a cluster that does not answer for a minute.
    os._exit(code)


def hide_secrets_of(config: CommonConfig, hiding: RedactingFilter) -> None:
    """The log hides from now on what these settings, and configs that are resolved with them, keep secret."""
    hiding.keep(config.resolved.secrets())
    # The secret of a Spark cluster may come from a file.
    hiding.keep(secrets_of(config.spark))
    # Only the worker and its tasks know resolved configs. The filter hides their secrets in every log line.
    config.resolver.report_secrets_to(hiding.learn)


def set_up_environment(config: CommonConfig, program: str) -> None:
    """Names the users' modules in the environment, and logs which variables of Kafka's scripts have no effect.

    `program`: as in a TaskSpec.
    """
    # Spark's tasks load such classes, too.
    os.environ[PLUGIN_PATH] = os.pathsep.join(map(os.path.abspath, config.plugin_path))
    os.environ[PLUGIN_MODULES] = ",".join(config.plugin_modules)
    os.environ[ALLOWED] = ",".join(config.allowed_functions)
    for line in notices(config.spark, os.environ, program):
        log.warning("%s", line)


def _run_to_the_end(prepare: Prepare, hiding: RedactingFilter) -> int:
    launched: LaunchedSpark | None = None
    log_format = TEXT
    try:
        log_format = asked_format(os.environ)
        with _held_lines(hiding) as held:
            leave_no_core()
            prepared = prepare(sys.argv[1:], hiding)
            log_format = held.log_format = asked_format(os.environ, prepared.log_format)
        allow_open_files()
        check_scratch()
        log.debug("Start: the settings are read")
        keep_signals()
        launched = LaunchedSpark(prepared.spark, prepared.tasks)
        log.debug("Start: Spark's driver is launched")
        # The runner is never closed, see `main_of`: closing waits for its threads.
        asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_run(partial(prepared.make, launched)))
    except WrongUsage as usage:
        print(usage, file=sys.stderr)
        return WRONG_SETTINGS
    except WrongSettings as wrong:
        for line in wrong.lines:
            _say(line, hiding, log_format)
        return WRONG_SETTINGS
    except Exception as error:
        cause = first_cause(error)
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(cause, kind)), MISTAKE)
        if code == MISTAKE:
            log.exception("The worker ends because of an unexpected error")
        _say(" ".join(str(cause).split()) or type(cause).__name__, hiding, log_format)
        return code
    finally:
        if launched is not None:
            launched.kill()
    return OK


def _say(line: str, hiding: RedactingFilter, log_format: str) -> None:
    clean = hiding.clean(line)
    shown = f"mirror-connect: {one_line(clean)}" if log_format == TEXT else json_line(logging.CRITICAL, log.name, clean)
    print(shown, file=sys.stderr, flush=True)


@dataclass(slots=True)
class _Held:
    """The format of the lines that are held, and of all later ones."""

    log_format: str


@contextlib.contextmanager
def _held_lines(hiding: RedactingFilter) -> Iterator[_Held]:
    """Lines from inside wait until the settings are read, which say in which format they are written."""
    held = _Held(asked_format(os.environ))
    waiting = MemoryHandler(_MOST_HELD, logging.CRITICAL + 1)
    _log_to(waiting)
    try:
        yield held
    finally:
        handler = _standard_error(hiding, held.log_format)
        waiting.setTarget(handler)
        waiting.flush()
        logging.basicConfig(level=logging.getLogger().level, handlers=[handler], force=True)


def _log_to(handler: logging.Handler) -> None:
    logging.basicConfig(level=asked_level(os.environ, "INFO"), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _standard_error(hiding: RedactingFilter, log_format: str) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    if log_format == JSON:
        handler.addFilter(SubjectFilter())
        handler.setFormatter(JsonFormatter())
    # On the handler, not on a logger: the filter of a logger does not see what its children log.
    handler.addFilter(hiding)
    return handler


async def _run(make: Callable[[], Program]) -> None:
    program = make()
    log.debug("Start: the program is built")

    def end() -> None:
        log.info("The worker was asked to stop: tasks commit what they have copied")
        program.stop()

    end_on_signals(end, LAST_RESORT_S)
    java = asyncio.create_task(asyncio.to_thread(check_java))
    running = asyncio.create_task(program.run())
    await asyncio.wait({java, running}, return_when=asyncio.FIRST_COMPLETED)
    if java.done() and java.exception():
        program.stop()
        await asyncio.gather(running, return_exceptions=True)
        java.result()
    await running
    log.info("The worker has stopped")
