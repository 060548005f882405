"""Log levels as Kafka Connect's REST tells and sets them, over Python's loggers.

Loggers keep their Python names (`mirror_connect.app.rest`). Some of Connect's own names stand for the part of this product
that does the same, so that what people know by heart (`org.apache.kafka.connect` at DEBUG) does what they mean by it. Any
other name is a logger of its own, as log4j makes one, and nothing logs to it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

log = logging.getLogger(__name__)

ROOT: Final = "root"
OFF: Final = "OFF"
# log4j's levels, from the one that lets everything through to the one that lets nothing.
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
        "org.apache.kafka.connect": ("mirror_connect.app", "mirror_connect.connectors", "mirror_connect.spark"),
        "org.apache.kafka.connect.mirror": ("mirror_connect.app.worker_connectors", "mirror_connect.spark"),
        "org.apache.kafka.connect.runtime": ("mirror_connect.app.herder", "mirror_connect.app.supervisor"),
        "org.apache.kafka.connect.runtime.distributed": ("mirror_connect.app.herder",),
        "org.apache.kafka.connect.runtime.rest": ("mirror_connect.app.rest",),
        "org.apache.kafka.connect.storage": ("mirror_connect.app.storage",),
        "org.apache.spark": ("mirror_connect.spark",),
    }
)


# Names that nobody logs by, each a logger for ever; Python also makes something for each part between two dots.
MOST_NAMED: Final = 1_000
LONGEST_NAME: Final = 300


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level by log4j's name; `last_modified` in ms since the epoch, None if nobody has set it here."""

    level: str
    last_modified: int | None


def level_named(text: str) -> str | None:
    """log4j's level of this name, in any case; None if there is none."""
    name = text.strip().upper()
    return name if name in LEVELS else None


class LogLevels:
    """The loggers of this process, or of `manager`."""

    def __init__(self, manager: logging.Manager | None = None, clock: Callable[[], float] = time.time) -> None:
        self._manager = logging.root.manager if manager is None else manager
        self._clock = clock
        self._modified: dict[str, int] = {}
        self._named: set[str] = set()

    def levels(self) -> dict[str, LoggerLevel]:
        """Every logger that is not switched off, by name."""
        levels = {name: self._told(name) for name in sorted(self._names())}
        return {name: told for name, told in levels.items() if told.level != OFF}

    def level(self, name: str) -> LoggerLevel | None:
        """One logger; None for one that nobody has used or named."""
        name = _key(name)
        return self._told(name) if name in self._names() else None

    def change(self, namespace: str, level: str) -> list[str]:
        """Sets a logger and all below it; the names of those that had another level. `level` is one of LEVELS."""
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
                # Also one that is not there yet: those below it get their level from it.
                self._manager.getLogger(name)
                chosen |= self._below(name)
        if namespace not in STANDS_FOR and level != OFF:
            # What is silent on purpose stays so, unless it is meant.
            chosen = {name for name in chosen if name == namespace or self._level(name) != OFF}
        # As in Connect, which knows no level of a logger that is off: OFF is news each time.
        changed = sorted(name for name in chosen if level == OFF or self._level(name) != level)
        now = int(self._clock() * 1000)
        self._modified |= dict.fromkeys(changed, now)
        for name in chosen - STANDS_FOR.keys():
            self._logger(name).setLevel(LEVELS[level])
        return changed

    def _room_for(self, name: str) -> bool:
        if len(name) <= LONGEST_NAME and len(self._named) < MOST_NAMED:
            return True
        log.warning(
            "The level of logger %r%s is not set: nothing logs by that name, and no more than %d such names of %d "
            "characters are taken",
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
        # Of several, the one that lets through most: whoever asks wonders why so much is logged.
        number = min(self._logger(each).getEffectiveLevel() for each in STANDS_FOR.get(name, (name,)))
        return next((level for level, highest in LEVELS.items() if number <= highest), OFF)

    def _told(self, name: str) -> LoggerLevel:
        return LoggerLevel(self._level(name), self._modified.get(name))


def _key(name: str) -> str:
    return ROOT if name.lower() == ROOT else name
