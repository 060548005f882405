"""Users' classes, `python:package.module:Class`. They are called in a separate process.

A worker runs the connectors of many people. Code that loops, blocks in C with the interpreter's lock, takes all memory or
ends its process would stop all of them. So, as with expressions (docs/decisions/0011), it never runs in the worker. Each
failure is a ConfigError that names the setting, the class and what it did.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.policies import INTERFACES
from mirror_connect.connectors.secrets import is_secret
from mirror_connect.connectors.user_code.known_classes import KNOWN_CLASSES
from mirror_connect.connectors.user_code.user_class_process import IDLE

PREFIX: Final = "python:"
FORM: Final = "python:package.module:Class"
# The directories of the worker's `plugin.path`, for all processes that start such a process, also Spark's tasks.
PLUGIN_PATH: Final = "MIRROR_CONNECT_PLUGIN_PATH"
# Names of packages and modules that may be elsewhere, from the worker's `plugin.modules`; `*` for any.
PLUGIN_MODULES: Final = "MIRROR_CONNECT_PLUGIN_MODULES"
SCRIPT: Final = Path(__file__).with_name("user_class_process.py")
# The environment of a class. Not all of the worker's, which may hold secrets for EnvVarConfigProvider.
PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR")
_DOTTED: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME: Final = re.compile(rf"python:(?P<module>{_DOTTED}):(?P<class>{_DOTTED})")
MEMORY: Final = 2 << 30
LAST_S: Final = 5.0
# Interface → the setting that names a class of it.
SETTINGS: Final[Mapping[str, str]] = {
    "replication.policy.class": "ReplicationPolicy",
    "topic.filter.class": "TopicFilter",
    "group.filter.class": "GroupFilter",
    "config.property.filter.class": "ConfigPropertyFilter",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds. CPU time, which a busy machine doesn't use up: `start_s` to create the class, `call_s` for a call.

    By the clock: `wait_s` for one answer, `all_s` for those of one request. Without requests the process ends after
    `idle_s`.
    """

    start_s: float = 20.0
    call_s: float = 1.0
    wait_s: float = 30.0
    all_s: float = 120.0
    idle_s: float = 10.0


def is_user_class(text: str | None) -> bool:
    """Whether a setting names a user's class, not one of Kafka's."""
    return text is not None and text.strip().startswith(PREFIX)


def name_problem(text: str, interface: str | None = None) -> str | None:
    """The problem of a class name that Kafka doesn't have; None if it may be a user's class.

    `interface`: what the class must implement. The text then names the known classes of it.
    """
    if not text.startswith(PREFIX):
        found = f"Class {text} could not be found."
        known = [name for name, interfaces in KNOWN_CLASSES.items() if interface in interfaces]
        there = f" There is {' and '.join(known)}." if known else ""
        return f"{found}{there} Your own class is written {FORM}." if text else found
    return None if _NAME.fullmatch(text) else f"It must be written {FORM}."


def class_problem(setting: str, config: Mapping[str, str], limits: Limits) -> str | None:
    """The problem of the class that a setting names, found by creating an object; blocking. None: it can be called."""
    code: UserClass | None = None
    try:
        code = UserClass(setting, config[setting], config, limits)
        code.start()
    except ConfigError as error:
        return error.problem
    finally:
        if code is not None:
            code.close()
    return None


class UserClass:
    """One setting's class. Its process starts with the first call and ends when this object is gone.

    For one thread at a time; all methods block.
    """

    def __init__(self, setting: str, text: str, config: Mapping[str, str], limits: Limits | None = None) -> None:
        self._setting = setting
        self._text = text.strip()
        self._limits = limits or Limits()
        self._methods = INTERFACES[SETTINGS[setting]]
        named = _NAME.fullmatch(self._text)
        if named is None:
            raise ConfigError(setting, self._text, name_problem(self._text) or "")
        self._job = {
            **named.groupdict(),
            # Without logins: the class needs none, and its texts may be shown.
            "config": {name: value for name, value in config.items() if not is_secret(name)},
            "methods": {name: asdict(method) for name, method in self._methods.items()},
            "path": [each for each in os.environ.get(PLUGIN_PATH, "").split(os.pathsep) if each],
            "elsewhere": [each for each in os.environ.get(PLUGIN_MODULES, "").split(",") if each],
            "memory": MEMORY,
            **asdict(self._limits),
        }
        self._process: _Process | None = None
        self._there: frozenset[str] = frozenset()

    def start(self) -> None:
        """Starts the process unless it runs. ConfigError: the class can't be imported, lacks a method, raises …"""
        if self._process is None or not self._process.lives():
            self.close()
            self._process = _Process()
            self._there = frozenset(self._answers(self._process, self._job, ["making it"])[0])

    def has(self, method: str) -> bool:
        """Whether the class has an optional method. ConfigError."""
        if self._process is None:
            self.start()
        return method in self._there

    def ask(self, method: str, calls: Sequence[Sequence[str]]) -> list[Any]:
        """The answer to each call, given by its arguments. ConfigError names the first that fails."""
        if not calls:
            return []
        request = {"method": method, "calls": calls}
        names = [f"{method}({', '.join(map(repr, arguments))})" for arguments in calls]
        given_up = time.monotonic() + self._limits.all_s
        while True:
            self.start()
            assert self._process is not None
            try:
                return self._answers(self._process, request, names)
            except _IdleEnd:
                # It was idle, and ended just when it was called.
                self.close()
                if time.monotonic() > given_up:
                    raise self.wrong(f"{names[0]} ended its process again and again") from None

    def close(self) -> None:
        """Ends the process; the next call starts another one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def wrong(self, problem: str) -> ConfigError:
        """The error that names the setting and the class."""
        return ConfigError(self._setting, self._text, problem)

    def _answers(self, process: _Process, request: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        found: list[Any] = []
        try:
            for line in process.exchange(request, len(names), self._limits):
                if "problem" in line:
                    raise self.wrong(line["problem"])
                found.append(line["answer"])
        except _Silent as silent:
            self.close()
            raise self.wrong(f"{names[len(found)]} takes more than {silent.args[0]:g} s") from None
        except _Ended as ended:
            if ended.code == IDLE and not found and "calls" in request:
                raise _IdleEnd from None
            self.close()
            raise self.wrong(f"{names[len(found)]} {self._fate(ended.code, request)}") from None
        except ConfigError:
            self.close()
            raise
        return found

    def _fate(self, code: int | None, request: Mapping[str, Any]) -> str:
        if code == -signal.SIGPROF:
            seconds = self._limits.call_s if "calls" in request else self._limits.start_s
            return f"takes more than {seconds:g} s of processor time"
        return f"ended its process (exit code {code})"


class _Silent(Exception):
    """No answer within so many seconds."""


class _Ended(Exception):
    """The process is gone, with this exit code."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(code)


class _IdleEnd(Exception):
    """The idle process had ended when it was called."""


class _Process:
    """The process, and lines to and from it. It ends when this object is gone."""

    def __init__(self) -> None:
        popen = self._popen = subprocess.Popen(
            # -P: modules beside the script are not the user's.
            [sys.executable, "-P", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )
        assert popen.stdin is not None
        assert popen.stdout is not None
        self._to, self._from = popen.stdin.fileno(), popen.stdout.fileno()
        os.set_blocking(self._to, False)
        self._received = bytearray()
        self.end = weakref.finalize(self, _end, popen)

    def lives(self) -> bool:
        """Whether the process still runs."""
        return self._popen.poll() is None

    def exchange(self, request: Mapping[str, Any], count: int, limits: Limits) -> Iterator[dict[str, Any]]:
        """Sends a line and yields `count` answers as they come. _Silent, _Ended."""
        unsent = memoryview(json.dumps(request).encode() + b"\n")
        began = heard = time.monotonic()
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        poll.register(self._to, select.POLLOUT)
        while count > 0:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                count -= 1
                heard = time.monotonic()
                yield json.loads(line)
                continue
            now = time.monotonic()
            for since, limit in ((heard, limits.wait_s), (began, limits.all_s)):
                if now >= since + limit:
                    raise _Silent(limit)
            for descriptor, _ in poll.poll(min(heard + limits.wait_s, began + limits.all_s) * 1000 - now * 1000):
                if descriptor == self._from:
                    self._receive()
                else:
                    unsent = unsent[self._sent(unsent) :]
                    if not unsent:
                        poll.unregister(self._to)

    def _receive(self) -> None:
        received = os.read(self._from, 1 << 16)
        if not received:
            try:
                raise _Ended(self._popen.wait(LAST_S))
            except subprocess.TimeoutExpired:  # it has closed the pipe but still runs
                raise _Ended(None) from None
        self._received += received

    def _sent(self, data: memoryview) -> int:
        try:
            return os.write(self._to, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # it is gone; the other pipe shows that


def _end(popen: subprocess.Popen[bytes]) -> None:
    popen.kill()
    for pipe in (popen.stdin, popen.stdout):
        if pipe is not None:
            pipe.close()
    popen.wait()
