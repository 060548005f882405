"""Which settings are secret, and how their values are kept out of texts for people: one rule for every part.

The value type that hides itself is `Secret` of config_values.py; this module knows names, and cleans texts that others made.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Final

HIDDEN: Final = "[hidden]"

# Ends of names, so that every prefix (source.cluster.…, producer.override.…) is meant too. The PASSWORD settings of
# Kafka's clients, the options of login modules, and what people commonly call their own.
_SECRET_ENDS: Final = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "private.key",
    "access.key",
    "secret.key",
    "api.key",
    "token",
)
_JAAS_OPTION: Final = re.compile(
    r"""(?<![\w.])([\w.]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
# Values that short occur inside ordinary words; they are replaced only where they stand alone.
_SHORT: Final = 6
# Each costs every line of the log some 50 ns, and whoever may ask for a validation may name as many as fit into a request.
MOST_LEARNED: Final = 10_000


def is_secret(name: str) -> bool:
    """Whether the value of a setting or login option of this name must never be shown."""
    return name.lower().endswith(_SECRET_ENDS)


def secrets_of(config: Mapping[str, str | None]) -> frozenset[str]:
    """The texts that must not be seen, of a config's secret settings; of login modules only the options that are secret.

    A login's user name stays visible: error texts are useless without it.
    """
    found: set[str] = set()
    for name, value in config.items():
        if not value or not is_secret(name):
            continue
        if name.endswith("sasl.jaas.config"):
            found |= _jaas_secrets(value)
        else:
            found |= {value, value.strip()}
    return frozenset(found - {""})


def _jaas_secrets(text: str) -> set[str]:
    found: set[str] = set()
    for option, double, single, word in _JAAS_OPTION.findall(text):
        # PlainLoginModule on a broker has its users' passwords in user_NAME options.
        if is_secret(option) or option.startswith("user_"):
            raw = double or single or word
            found |= {raw, re.sub(r"\\(.)", r"\1", raw)}
    return found


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with every one of the secrets replaced by `[hidden]`; longer ones first, as one may be part of another."""
    return _redact(text, sorted(set(secrets), key=len, reverse=True))


def _redact(text: str, longest_first: Iterable[str]) -> str:
    for secret in longest_first:
        if len(secret) >= _SHORT:
            text = text.replace(secret, HIDDEN)
        elif secret and secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return text


class RedactingFilter(logging.Filter):
    """Put it on a log handler: no line that passes holds a known secret, in its text, arguments or trace.

    It is the last net. Whoever makes a text leaves secrets out of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: frozenset[str] = frozenset()
        # In the order in which they were last heard of.
        self._learned: dict[str, None] = {}
        self._longest_first: tuple[str, ...] = ()
        self._learning = threading.Lock()

    def keep(self, secrets: Iterable[str]) -> None:
        """Hide these for ever."""
        with self._learning:
            self._kept |= frozenset(secrets)
            self._sort()

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these from now on, too, unless MOST_LEARNED others were heard of since; from any thread."""
        heard = dict.fromkeys(secrets)
        with self._learning:
            known = heard.keys() <= self._learned.keys()
            for secret in heard:
                self._learned.pop(secret, None)
            self._learned |= heard
            for secret in list(self._learned)[: max(0, len(self._learned) - MOST_LEARNED)]:
                del self._learned[secret]
            if not known:
                self._sort()

    def _sort(self) -> None:
        self._longest_first = tuple(sorted(self._kept | self._learned.keys(), key=len, reverse=True))

    def clean(self, text: str) -> str:
        """The text without what is known to be secret, for lines that don't go through a logger."""
        return _redact(text, self._longest_first)

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean the record in place; never drops one."""
        if not self._longest_first:
            return True
        message = record.getMessage()
        cleaned = _redact(message, self._longest_first)
        if cleaned != message:
            record.msg, record.args = cleaned, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = _redact(record.exc_text, self._longest_first)
        return True
