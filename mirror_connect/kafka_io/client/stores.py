"""Key and trust stores of Java clients, read into PEM in memory: PEM files, PKCS12 and JKS.

Neither Python's ssl nor librdkafka reads JKS, and a decrypted key must never be in a temporary file. Each store is opened in
a process of its own, with limits: two thousand million iterations would block this process for minutes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from mirror_connect.connectors.config.bounded_file import CantRead, read_file
from mirror_connect.connectors.errors import ConfigError

# A million iterations of PBKDF2 take less than a second; Java's and OpenSSL's own choices are 2,048 to 10,000.
PROCESSOR_S: Final = 2
# By the clock, which is longer on a busy machine.
LAST_S: Final = 60
MEMORY: Final = 1 << 30
_MODULE: Final = "mirror_connect.kafka_io.client.store_process"
# The environment that the process gets: what it needs to find its libraries.
_PASSED_ON: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "CRYPTOGRAPHY_OPENSSL_NO_LEGACY",
)
# Digest of a store's content and passwords → what was in it. A store whose file has changed has another digest.
_answered: OrderedDict[bytes, Any] = OrderedDict()
_answered_lock = threading.Lock()
_MOST_ANSWERED: Final = 64


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key (PKCS8 PEM, not encrypted) and its certificates (PEM), the owner's first."""

    key: str = field(repr=False)
    chain: str


@dataclass(frozen=True, slots=True)
class Store:
    """A store file as settings name it: `ssl.keystore` or `ssl.truststore`, type in upper case."""

    setting: str
    location: str
    type: str
    password: str | None = field(repr=False)
    key_password: str | None = field(default=None, repr=False)

    def trusted(self) -> str:
        """All certificates of a trust store, as PEM. ConfigError if there are none."""
        return str(self._opened("trusted"))

    def key_pair(self) -> KeyPair:
        """The private key and its chain. ConfigError if there is none."""
        return KeyPair(**self._opened("key_pair"))

    def _opened(self, what: str) -> Any:
        location = f"{self.setting}.location"
        try:
            content = read_file(self.location)
        except CantRead as error:
            raise ConfigError(location, self.location, str(error)) from None
        job = {"what": what, "store": asdict(self), "content": base64.b64encode(content).decode()}
        return _answer(job, location, self.location)


def certificates(setting: str, text: str) -> str:
    """The certificates in a PEM text, checked. ConfigError if there are none."""
    return str(_answer({"what": "certificates", "setting": setting, "text": text}, setting, None))


def private_key(setting: str, text: str, password: str | None) -> str:
    """The private key in a PEM text, decrypted, as PKCS8 PEM. ConfigError if it isn't there or can't be opened."""
    return str(_answer({"what": "private_key", "setting": setting, "text": text, "password": password}, setting, None))


def _answer(job: Mapping[str, Any], setting: str, value: str | None) -> Any:
    """The result of the process, or what one answered before. ConfigError with its problem, or the limit that it reached.

    Every client of a cluster opens the same stores, several of them on an event loop that others need meanwhile.
    """
    asked = json.dumps({**job, "processor_s": PROCESSOR_S, "memory": MEMORY}).encode()
    digest = hashlib.sha256(asked).digest()
    with _answered_lock:
        if digest in _answered:
            _answered.move_to_end(digest)
            return _answered[digest]
    answer = _asked_process(asked, setting, value)
    with _answered_lock:
        _answered[digest] = answer
        while len(_answered) > _MOST_ANSWERED:
            _answered.popitem(last=False)
    return answer


def _asked_process(asked: bytes, setting: str, value: str | None) -> Any:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # The module path of this process: on an executor, the modules were sent to it.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE],
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=LAST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(setting, value, f"opening it takes more than {LAST_S} s") from None
    if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise ConfigError(
            setting,
            value,
            f"opening it takes more than {PROCESSOR_S} s of processor time; create it again with fewer iterations of its "
            "encryption (a million of PBKDF2 are well below that), and keys of usual sizes",
        )
    if ended.returncode != 0:
        problem = (
            f"opening it ended the process that did it (exit code {ended.returncode}, {MEMORY >> 20} MiB of memory)"
        )
        raise ConfigError(setting, value, problem)
    result = json.loads(ended.stdout)
    if "problem" in result:
        raise ConfigError(*result["problem"])
    return result["answer"]
