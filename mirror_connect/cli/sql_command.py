"""`mirror-connect sql`: a SELECT over the topics of a link, in a Spark of the command's own."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from mirror_connect.app.errors import ConnectError
from mirror_connect.app.standalone.connector_files import read_connector_file
from mirror_connect.check.command_line import say
from mirror_connect.cli.rest.arguments import Parser, add_connection, connect
from mirror_connect.cli.rest.command_run import run
from mirror_connect.cli.rest.failures import FINE, CommandFailed, UnknownName, WrongUsage
from mirror_connect.cli.rest.figures import count
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.query import bounds
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import READ_COMMITTED, READ_UNCOMMITTED, STATUSES, QueryLink
from mirror_connect.query.link_options import (
    link_of_config,
    link_of_files,
    only_source,
    properties_in,
    source_configs,
)
from mirror_connect.query.results import CSV, FORMATS, JSON, PARQUET, TABLE, csv_lines, table_lines
from mirror_connect.query.session import QuerySpark
from mirror_connect.query.watch import Limits, Watch

_ROWS: Final = 10_000
_BYTES: Final = "1GiB"
_TIMEOUT: Final = "10min"
_MEMORY: Final = "1g"
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]i?|)b?", re.IGNORECASE)
_HEAP: Final = re.compile(r"(\d{1,6})([mg])", re.IGNORECASE)
# A terminal that is closed sends SIGHUP.
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_UNITS: Final = {
    "": 1,
    **{each: 1000**number for number, each in enumerate(("k", "m", "g", "t"), 1)},
    **{each: 1024**number for number, each in enumerate(("ki", "mi", "gi", "ti"), 1)},
}
# Spark starts with no less.
_LEAST_HEAP_MB: Final = 512


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("statement", metavar="STATEMENT")
    parser.add_argument("--connector", metavar="NAME")
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--source", metavar="FILE")
    parser.add_argument("--target", metavar="FILE")
    parser.add_argument("--source-alias", metavar="NAME")
    parser.add_argument("--last", metavar="TIME", default="")
    parser.add_argument("--from", metavar="TIME", default="", dest="since")
    parser.add_argument("--until", metavar="TIME", default="")
    parser.add_argument("--from-offset", metavar="NUMBER", default="")
    parser.add_argument("--until-offset", metavar="NUMBER", default="")
    parser.add_argument("--isolation-level", choices=(READ_COMMITTED, READ_UNCOMMITTED))
    parser.add_argument("-o", "--output", choices=FORMATS, default=TABLE)
    parser.add_argument("--to", metavar="DIRECTORY")
    parser.add_argument("--rows", type=_rows, metavar="NUMBER")
    parser.add_argument("--max-bytes", type=_size, metavar="SIZE", default=_size(_BYTES))
    parser.add_argument("--timeout", type=_seconds, metavar="TIME", default=_seconds(_TIMEOUT))
    parser.add_argument("--memory", type=_heap, metavar="SIZE", default=_MEMORY)


class Interrupted:
    """The handler of Ctrl-C and of signals that end the command. `once`: whether one came; others after it are ignored.

    PySpark's own handler asks the JVM first, which a terminal's Ctrl-C has ended too. And what collects a result waits for
    the end of the job, however it was interrupted. So the JVM is killed.
    """

    def __init__(self, spark: QuerySpark) -> None:
        self.once = 0
        self._spark = spark
        # `nohup` has SIGHUP ignored.
        self._former = {each: now for each in _ENDING if (now := signal.getsignal(each)) not in (signal.SIG_IGN, None)}

    def listen(self) -> None:
        """From now on it handles them."""
        for number in self._former:
            signal.signal(number, self)

    def ignore(self) -> None:
        """From now on they do nothing: what is left to do takes no time, and has to be done."""
        for number in self._former:
            signal.signal(number, signal.SIG_IGN)

    def give_back(self) -> None:
        """They do what they did before."""
        for number, former in self._former.items():
            signal.signal(number, former)

    def __call__(self, number: int, _: object) -> None:
        """As Python calls it, in the main thread."""
        if self.once:
            return
        self.once = number
        self._spark.kill()
        self.leave()

    def leave(self) -> None:
        """Raises what ends the command. Does nothing if no signal came."""
        if self.once == signal.SIGINT:
            raise KeyboardInterrupt
        if self.once:
            raise SystemExit(128 + self.once)


def main() -> NoReturn:
    """Entry point of `mirror-connect sql`."""
    parser = Parser("sql")
    arguments(parser)
    add_connection(parser)
    run(lambda: _body(parser.parse_intermixed_args(sys.argv[1:])))


def _body(chosen: argparse.Namespace) -> int:
    if (chosen.output == PARQUET) != (chosen.to is not None):
        raise WrongUsage("-o parquet writes files: give --to DIRECTORY with it, and with nothing else")
    if chosen.to is not None:
        if os.path.lexists(chosen.to):
            raise WrongUsage(f"--to {chosen.to} is there already: name a new directory")
        if not os.path.isdir(os.path.dirname(os.path.abspath(chosen.to))):
            raise WrongUsage(f"--to {chosen.to}: the directory above it is not there")
    text = sys.stdin.read() if chosen.statement == "-" else chosen.statement
    try:
        options = _bounds(chosen)
        with contextlib.ExitStack() as stack:
            return _answer(chosen, text, options, stack)
    except (QueryError, ConfigError) as error:
        raise CommandFailed(str(error)) from None
    except ConnectError as error:
        raise WrongUsage(str(error)) from None


def _answer(chosen: argparse.Namespace, text: str, options: Mapping[str, str], stack: contextlib.ExitStack) -> int:
    spark = QuerySpark(chosen.memory)
    interrupted = Interrupted(spark)
    for each in (interrupted.give_back, spark.end, interrupted.ignore):
        stack.callback(each)  # the last one runs first
    interrupted.listen()
    # Before Spark, which takes seconds to start and to end: what is wrong here is told at once.
    worker = stack.enter_context(connect(chosen)) if _asks_worker(chosen) else None
    link = _link(chosen, worker)
    spark.begin()
    # Imported while the JVM comes up.
    from mirror_connect.query.run import Query, planned_result  # noqa: PLC0415
    from mirror_connect.query.witness import FileWitness  # noqa: PLC0415

    witness = FileWitness(spark.directory)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_ours)
    limits = Limits(chosen.max_bytes, chosen.timeout)
    most = chosen.rows
    watch = Watch(witness, limits, say, lambda: os.kill(os.getpid(), signal.SIGINT))
    lines: Iterable[str] = ()
    more = False
    try:
        with watch:
            watch.starting = True
            session = spark.session()
            watch.starting = False
            # PySpark has taken SIGINT.
            interrupted.listen()
            ask = None if worker is None else lambda path: _found(worker, path)
            result = planned_result(session, text, Query(link, options, witness, ask))
            if chosen.output == PARQUET:
                _write_parquet(result, chosen.to, most or 0)
            else:
                lines, more = _lines(result, chosen.output, _ROWS if most is None else most)
            if not watch.look():
                raise QueryError(watch.reason or "")
    except BaseException:
        # Whatever the end of the JVM has raised.
        if watch.reason is not None:
            raise QueryError(watch.reason) from None
        interrupted.leave()
        raise
    for line in lines:
        print(line)
    sys.stdout.flush()
    if more:
        say(
            f"there are more rows than {count(_ROWS if most is None else most)}: --rows NUMBER shows more of them, 0 all"
        )
    return FINE


def _is_ours(record: logging.LogRecord) -> bool:
    """Py4J logs a trace for each call that the end of the JVM breaks off, which the command tells in one line."""
    return record.name != "root" and record.name.partition(".")[0] != "py4j"


def _lines(result: Any, output: str, most: int) -> tuple[Iterable[str], bool]:
    """The result as text, and whether there is more than it has. `most`: at most so many rows; 0: all."""
    named = output == JSON
    rows: Iterable[str]
    more = False
    if most:
        found = result.first_rows(most + 1, named=named)
        rows, more = found[:most], len(found) > most
    else:
        rows = result.stored_rows(named=named)
    if output == JSON:
        return rows, more
    form = csv_lines if output == CSV else table_lines
    return form(result.columns, rows), more


def _write_parquet(result: Any, to: str, most: int) -> None:
    parent, name = os.path.split(os.path.abspath(to))
    try:
        # Beside its place at first, so that nothing is left of a query that fails.
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=parent) as beside:
            result.write_parquet(f"{beside}/files", most)
            os.rename(f"{beside}/files", to)
    except OSError as error:
        raise QueryError(f"--to {to} can't be written: {error.strerror or error}") from None


def _asks_worker(chosen: argparse.Namespace) -> bool:
    named = chosen.connector is not None or chosen.worker is not None or chosen.context is not None
    return named or not (chosen.config or chosen.source or chosen.target)


def _link(chosen: argparse.Namespace, worker: WorkerClient | None) -> QueryLink:
    given = {
        role: properties_in(role, path)
        for role, path in (("source", chosen.source), ("target", chosen.target))
        if path is not None
    }
    isolation = chosen.isolation_level
    if chosen.config is not None:
        if chosen.connector is not None:
            raise WrongUsage("give --connector or --config, not both")
        file = read_connector_file(chosen.config, "the connector")
        config = {name: value for name, value in file.config.items() if value is not None}
        return link_of_config(file.name, config, given, isolation=isolation)
    if worker is None or (chosen.connector is None and given):
        return link_of_files(given, chosen.source_alias, isolation=isolation)
    name = chosen.connector or only_source(
        source_configs(worker.get("/connectors", expand=["info"])), worker.url, "--connector"
    )
    try:
        config = worker.get(connector_path(name, "config"))
    except UnknownName as error:
        raise QueryError(str(error)) from None
    return link_of_config(name, {key: str(value) for key, value in config.items()}, given, isolation=isolation)


def _found(worker: WorkerClient, path: str) -> Any:
    return worker.get("/connectors", expand=["info", "status"]) if path == STATUSES else worker.find(path)


def _bounds(chosen: argparse.Namespace) -> dict[str, str]:
    """The options of each table of records. Times are those of now, for all of them the same."""
    given = {
        bounds.LAST: chosen.last,
        bounds.FROM: chosen.since,
        bounds.UNTIL: chosen.until,
        bounds.FROM_OFFSET: chosen.from_offset,
        bounds.UNTIL_OFFSET: chosen.until_offset,
    }
    found = bounds.bounds_of(given, int(time.time() * 1000))
    fixed = {
        bounds.FROM: found.from_ms,
        bounds.UNTIL: found.until_ms,
        bounds.FROM_OFFSET: found.first,
        bounds.UNTIL_OFFSET: found.end,
    }
    return {name: str(value) for name, value in fixed.items() if value is not None}


def _rows(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text} is no number of rows")
    return int(text)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is no size: give one such as 500MB or 2GiB, 0 for no limit")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def _seconds(text: str) -> float:
    if text == "0":
        return 0.0
    try:
        return bounds.duration(text, "--timeout") / 1000
    except QueryError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _heap(text: str) -> str:
    found = _HEAP.fullmatch(text)
    if found is None or int(found[1]) * (1024 if found[2].lower() == "g" else 1) < _LEAST_HEAP_MB:
        raise argparse.ArgumentTypeError(f"{text} is no heap for Spark: give one such as {_LEAST_HEAP_MB}m or 4g")
    return text.lower()
