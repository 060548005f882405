"""Log levels as Kafka Connect's REST shows and sets them, over Python's loggers.

Loggers keep their Python names (`mirror_connect.app.rest`). Some of Connect's names stand for the part of this product that
does the same, so that well-known requests work (`org.apache.kafka.connect` at DEBUG). As in log4j, any other name makes a
logger of its own, and nothing logs to it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mirror_connect.app.errors import ConnectError
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.storage.config_view import Change, LoggerLevelSet
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized

log = logging.getLogger(__name__)

ROOT: Final = "root"
OFF: Final = "OFF"
OURS: Final = "mirror_connect"
# What Spark's processes log, too.
_OF_SPARK: Final = tuple(f"{OURS}.{room}." for room in ("connectors", "kafka_io", "spark_jobs"))
# log4j's name of all that Spark itself logs.
JVM: Final = "org.apache.spark"
# log4j's levels, from the one that logs everything to the one that logs nothing.
LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "ALL": 1,
        "TRACE": 5,
        "DEBUG": logging.DEBUG,
        "INFO": logging.INFO,
        "WARN": logging.WARNING,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
        OFF: logging.CRITICAL + 1,
    }
)
STANDS_FOR: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "org.apache.kafka.clients": ("mirror_connect.kafka_io",),
        "org.apache.kafka.connect": (
            *("mirror_connect.app", "mirror_connect.connectors"),
            *("mirror_connect.spark", "mirror_connect.spark_jobs"),
        ),
        "org.apache.kafka.connect.mirror": (
            *("mirror_connect.app.worker_connectors", "mirror_connect.spark", "mirror_connect.spark_jobs"),
        ),
        "org.apache.kafka.connect.runtime": ("mirror_connect.app.herder", "mirror_connect.app.supervisor"),
        "org.apache.kafka.connect.runtime.distributed": ("mirror_connect.app.herder",),
        "org.apache.kafka.connect.runtime.rest": ("mirror_connect.app.rest",),
        "org.apache.kafka.connect.storage": ("mirror_connect.app.storage",),
        JVM: ("mirror_connect.spark",),
    }
)


# For names that nothing logs to. Each is a logger for ever, and Python makes an object for each part between two dots.
MOST_NAMED: Final = 1_000
LONGEST_NAME: Final = 300


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level by log4j's name; `last_modified` in ms since the epoch, None if nobody has set it here."""

    level: str
    last_modified: int | None


def level_named(text: str) -> str | None:
    """log4j's level of this name, in upper or lower case; None if there is none."""
    name = text.strip().upper()
    return name if name in LEVELS else None


class LogLevels:
    """The loggers of this process, or of `manager`. `tell_spark` gets the levels that Spark's processes have to set."""

    def __init__(
        self,
        manager: logging.Manager | None = None,
        clock: Callable[[], float] = time.time,
        tell_spark: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._tell_spark = tell_spark
        self._manager = logging.root.manager if manager is None else manager
        self._clock = clock
        self._modified: dict[str, int] = {}
        self._named: set[str] = set()

    def levels(self) -> dict[str, LoggerLevel]:
        """Every logger that is not off, by name."""
        levels = {name: self._level_of(name) for name in sorted(self._names())}
        return {name: found for name, found in levels.items() if found.level != OFF}

    def level(self, name: str) -> LoggerLevel | None:
        """One logger; None if nobody has used or named it."""
        name = _key(name)
        return self._level_of(name) if name in self._names() else None

    def change(self, namespace: str, level: str) -> list[str]:
        """Sets a logger and all below it; returns the names of those that changed. `level` is one of LEVELS."""
        namespace = _key(namespace)
        if namespace not in self._names() and not self._room_for(namespace):
            return []
        log.info("The level of logger %r and of those below it is set to %s", namespace, level)
        if namespace not in self._names():
            self._named.add(namespace)
            self._manager.getLogger(namespace)
        chosen = self._below(namespace)
        for alias in chosen & STANDS_FOR.keys():
            for name in STANDS_FOR[alias]:
                # Also if it does not exist yet: loggers below it get their level from it.
                self._manager.getLogger(name)
                chosen |= self._below(name)
        if namespace not in STANDS_FOR and level != OFF:
            # A logger that is off stays off, unless the request names it.
            chosen = {name for name in chosen if name == namespace or self._level(name) != OFF}
        # As in Connect, which has no level for a logger that is off: OFF counts as a change each time.
        changed = sorted(name for name in chosen if level == OFF or self._level(name) != level)
        now = int(self._clock() * 1000)
        self._modified |= dict.fromkeys(changed, now)
        for name in chosen - STANDS_FOR.keys():
            self._logger(name).setLevel(LEVELS[level])
        theirs = {
            name for name in chosen - STANDS_FOR.keys() if name in (ROOT, OURS) or f"{name}.".startswith(_OF_SPARK)
        }
        if namespace == JVM:
            # Only on request for it: with any other name nobody means the JVM, which logs thousands of lines a second.
            theirs.add(JVM)
        if theirs:
            self._tell_spark(dict.fromkeys(theirs, LEVELS[level]))
        return changed

    def _room_for(self, name: str) -> bool:
        if len(name) <= LONGEST_NAME and len(self._named) < MOST_NAMED:
            return True
        log.warning(
            "The level of logger %r%s is not set: nothing logs under that name, and at most %d such names of up to %d "
            "characters are accepted",
            name[:LONGEST_NAME],
            "…" * (len(name) > LONGEST_NAME),
            MOST_NAMED,
            LONGEST_NAME,
        )
        return False

    def _names(self) -> set[str]:
        loggers = list(self._manager.loggerDict.items())
        return {ROOT, *STANDS_FOR, *(name for name, found in loggers if isinstance(found, logging.Logger))}

    def _below(self, namespace: str) -> set[str]:
        if namespace == ROOT:
            return self._names()
        return {name for name in self._names() if name == namespace or name.startswith(namespace + ".")}

    def _logger(self, name: str) -> logging.Logger:
        return self._manager.root if name == ROOT else self._manager.getLogger(name)

    def _level(self, name: str) -> str:
        # Of several, the one that logs most: people ask because they see too many lines.
        number = min(self._logger(each).getEffectiveLevel() for each in STANDS_FOR.get(name, (name,)))
        return next((level for level, highest in LEVELS.items() if number <= highest), OFF)

    def _level_of(self, name: str) -> LoggerLevel:
        return LoggerLevel(self._level(name), self._modified.get(name))


class ClusterLogLevels:
    """The levels of this worker, and changes for all workers, which arrive in the config topic."""

    def __init__(self, levels: LogLevels, configs: ConfigStore, leadership: Leadership) -> None:
        self.here = levels
        self._configs = configs
        self._leadership = leadership

    def start(self) -> None:
        """Begins to follow the config topic."""
        self._configs.add_listener(self._changed)

    async def change_everywhere(self, name: str, level: str) -> None:
        """Sets a logger on all running workers, this one included. As in Connect, any member of the group may write it."""
        await self._leadership.until_ready()
        try:
            await self._configs.put_logger_level(name, level)
        except (ClusterUnreachable, NotAuthorized) as error:
            raise ConnectError(str(error)) from error

    def _changed(self, change: Change) -> None:
        if not isinstance(change, LoggerLevelSet):
            return
        level = level_named(change.level)
        if level is None:
            log.warning("The config topic has an unknown level for logger %r: %r", change.namespace, change.level)
        else:
            self.here.change(change.namespace, level)


def _key(name: str) -> str:
    return ROOT if name.lower() == ROOT else name
