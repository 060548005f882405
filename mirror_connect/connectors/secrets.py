"""Knows which settings are secret, and removes their values from texts for people.

`Secret` of config/values.py is the type of a value that hides itself. This module knows the names of secret settings, and
redacts texts from elsewhere.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from urllib.parse import quote

HIDDEN: Final = "[hidden]"

# Ends of names, so that names with prefixes (source.cluster.…, producer.override.…) match, too: PASSWORD settings of
# Kafka's clients, options of login modules, and common names that users choose.
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
# The name by which a statement knows a secret follows (mirror/transform_sql.py).
_OF_SQL: Final = "spark.transform.secret."
_JAAS_OPTION: Final = re.compile(
    r"""(?<![\w.])([\w.]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
# Short values, and plain words or numbers, also occur inside other texts. They are replaced only where they stand alone.
# Values that are hard to guess are longer or mixed, and are replaced everywhere.
_SHORT: Final = 6
# Below 32: so a length byte before such a value is a control character, never a letter.
_LONGEST_WORD: Final = 20
_ALONE_BEFORE: Final = (
    r"(?:(?<![^\W_])"  # an underscore stands between words, too
    # A value after an escape stands alone, too: the last letter of the escape is not part of the text.
    r"|(?<=\\[0abefnrtv])|(?<=\\[0-7]{3})|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\U[0-9a-fA-F]{8})"
    r"|(?<=%[0-9a-fA-F]{2})|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
)
_ALONE_AFTER: Final = r"(?![^\W_])"
# The length of a private key's line that occurs nowhere else by accident.
_TELLING_LINE: Final = 16
_MOST_LINES: Final = 200
# How long a secret is hidden after its last use, for late lines: a connector's calls and clients end within minutes, and
# a store of source offsets on another cluster is closed ten minutes after its last use.
GRACE_S: Final = 900.0
# Limits of forms, see `_written`: each form costs every log line about 50 ns, and a connector's config may hold as many
# as fit into a request. So there is a limit for one connector, and forms in use are never dropped.
MOST_LEARNED: Final = 10_000
MOST_OF_ONE: Final = 1_000


def is_secret(name: str) -> bool:
    """Whether the value of a setting or login option of this name must never be shown."""
    lower = name.lower()
    return lower.endswith(_SECRET_ENDS) or _OF_SQL in lower


def secrets_of(config: Mapping[str, str | None]) -> frozenset[str]:
    """The values of a config's secret settings; of login modules only the secret options.

    The user name of a login stays visible: error texts are useless without it.
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


def resolved_secrets(raw: Mapping[str, str], resolved: Mapping[str, str]) -> frozenset[str]:
    """The values of a config that no text may show: secret settings, and everything from config providers."""
    provided = [value for name, value in resolved.items() if value != raw.get(name)]
    # A file often ends with a line break, which errors omit from the value that they show.
    return secrets_of(resolved).union(provided, (value.strip() for value in provided)) - {""}


def _jaas_secrets(text: str) -> set[str]:
    found: set[str] = set()
    for option, double, single, word in _JAAS_OPTION.findall(text):
        # A broker's PlainLoginModule has the users' passwords in options user_NAME.
        if is_secret(option) or option.startswith("user_"):
            raw = double or single or word
            found |= {raw, re.sub(r"\\(.)", r"\1", raw)}
    return found


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text with all secrets replaced by `[hidden]`; longer ones first, because one may be part of another."""
    # The forms of a long secret, such as a PEM text, take longer than most texts.
    return text and _redact(text, _longest_first(itertools.chain.from_iterable(map(_written, secrets))))


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts) - {""}, key=len, reverse=True))


def _written(secret: str) -> set[str]:
    """The forms of a secret: as it is, and as programs quote it, since errors often show the form of Python or JSON."""
    if secret.isascii() and secret.isalnum():
        return {secret}
    octets = secret.encode(errors="surrogatepass")
    quoted = (
        repr(secret)[1:-1],
        repr(octets)[2:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    )
    # In a trace or a log that is read by lines, other text may stand between the lines of a key.
    lines = [line.strip() for line in secret.splitlines()[:_MOST_LINES]] if "PRIVATE KEY-----" in secret else []
    telling = [line for line in lines if len(line) >= _TELLING_LINE and not line.startswith("-----")]
    return {secret, *quoted, quote(octets, safe=""), *telling}


def _redact(text: str, longest_first: Iterable[str]) -> str:
    for secret in longest_first:
        if secret not in text:
            continue
        text = re.sub(_alone(secret), HIDDEN, text) if _occurs_in_others(secret) else text.replace(secret, HIDDEN)
    return text


def _occurs_in_others(secret: str) -> bool:
    """Whether a secret is so short or common that longer words and numbers contain it by accident."""
    if len(secret) < _SHORT:
        return True
    word = secret.isalpha() and (secret.islower() or secret.isupper() or secret.istitle())
    return len(secret) <= _LONGEST_WORD and (word or secret.isdecimal())


def _alone(secret: str) -> str:
    """An expression for a secret that is not part of a word. Where it begins or ends with no letter or digit, all matches.

    A secret without any letter or digit must stand alone, too: otherwise every blank or dash of a text would match.
    """
    mark = not any(map(str.isalnum, secret))
    before = _ALONE_BEFORE if mark or secret[0].isalnum() else ""
    after = _ALONE_AFTER if mark or secret[-1].isalnum() else ""
    return f"{before}{re.escape(secret)}{after}"


class RedactingFilter(logging.Filter):
    """A filter for log handlers: removes known secrets from a line's text, arguments and trace.

    It is the last defence. The author of a text leaves secrets out. `clock` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kept: frozenset[str] = frozenset()
        # Secret → when it was last learned or in use, and its owner; in the order of that time.
        self._learned: dict[str, tuple[float, str]] = {}
        self._in_use: frozenset[str] = frozenset()
        self._longest_first: tuple[str, ...] = ()
        self._learning = threading.Lock()

    def keep(self, secrets: Iterable[str]) -> None:
        """Hides these secrets for ever."""
        with self._learning:
            self._kept |= frozenset(secrets)
            self._sort()

    def learn(self, secrets: Iterable[str], owner: str = "") -> None:
        """Hides these secrets, too, until they are forgotten or too many others were learned. From any thread.

        `owner`: their connector. Above MOST_OF_ONE forms its newer secrets replace its older ones; above MOST_LEARNED
        newer ones of any connector do. Secrets that were in use at the last `forget_all_but` are never replaced.
        """
        with self._learning:
            heard = dict.fromkeys(secrets, (self._clock(), owner))
            known = heard.keys() <= self._learned.keys()
            for secret in heard:
                self._learned.pop(secret, None)
            self._learned |= heard
            if not known:
                self._sort()

    def forget_all_but(self, in_use: Collection[str]) -> None:
        """Forgets learned secrets that were neither in use nor learned within GRACE_S. From any thread."""
        with self._learning:
            now = self._clock()
            self._in_use = frozenset(in_use)
            for secret in [each for each in self._learned if each in in_use]:
                self._learned[secret] = (now, self._learned.pop(secret)[1])
            old = [secret for secret, (last, _) in self._learned.items() if now - last > GRACE_S]
            for secret in old:
                del self._learned[secret]
            if old:
                self._sort()

    def _sort(self) -> None:
        forms: set[str] = set()
        used: Counter[str] = Counter()
        others = 0
        for secret, (_, owner) in reversed(list(self._learned.items())):
            if secret not in self._in_use:
                if others >= MOST_LEARNED or used[owner] >= MOST_OF_ONE:
                    del self._learned[secret]
                    continue
                written = _written(secret)
                others += len(written)
                used[owner] += len(written)
                forms |= written
            else:
                forms |= _written(secret)
        self._longest_first = _longest_first(forms.union(*map(_written, self._kept)))

    def clean(self, text: str) -> str:
        """The text without known secrets, for lines that don't go through a logger."""
        return _redact(text, self._longest_first)

    def filter(self, record: logging.LogRecord) -> bool:
        """Redacts the record in place. It never drops one."""
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
