"""Which settings are secret, and how their values are kept out of texts for people: one rule for every part.

The value type that hides itself is `Secret` of config_values.py; this module knows names, and cleans texts that others made.
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
# Values that are short, or a word or number as any line may hold, occur inside others; they are replaced only where they
# stand alone. What people or machines make up to be guessed by nobody is longer or mixed, and is replaced wherever it is.
_SHORT: Final = 6
# Below 32, so that a length in front of such a value is a control character, never one that looks like a letter.
_LONGEST_WORD: Final = 20
_ALONE_BEFORE: Final = (
    r"(?:(?<![^\W_])"  # an underscore stands between words, too
    # What follows an escape stands alone as well: its last letter is none of the text's.
    r"|(?<=\\[0abefnrtv])|(?<=\\[0-7]{3})|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\U[0-9a-fA-F]{8})"
    r"|(?<=%[0-9a-fA-F]{2})|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
)
_ALONE_AFTER: Final = r"(?![^\W_])"
# Of a private key's lines: one so long is found nowhere by accident.
_TELLING_LINE: Final = 16
_MOST_LINES: Final = 200
# After a secret's last use, for lines that are still on their way: a connector's calls and clients end within minutes,
# and the store of positions on another cluster is closed ten minutes after its last use.
GRACE_S: Final = 900.0
# Forms of them, see `_written`: each costs every line of the log some 50 ns, and whoever may write connectors may name as
# many as fit into a request. So one connector has room for so many, and what is in use never makes room for others.
MOST_LEARNED: Final = 10_000
MOST_OF_ONE: Final = 1_000


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


def resolved_secrets(raw: Mapping[str, str], resolved: Mapping[str, str]) -> frozenset[str]:
    """What no text may show of a config: secret settings, and whatever came from a config provider."""
    provided = [value for name, value in resolved.items() if value != raw.get(name)]
    # A file often ends with a line break, which errors leave out of the value that they show.
    return secrets_of(resolved).union(provided, (value.strip() for value in provided)) - {""}


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
    return _redact(text, _longest_first(itertools.chain.from_iterable(map(_written, secrets))))


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts) - {""}, key=len, reverse=True))


def _written(secret: str) -> set[str]:
    """A secret as it is, and as programs quote it: an error that shows a value often shows Python's or JSON's form of it."""
    if secret.isascii() and secret.isalnum():
        return {secret}
    octets = secret.encode(errors="surrogatepass")
    quoted = (
        repr(secret)[1:-1],
        repr(octets)[2:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    )
    # A trace of several exceptions, a log that is read by lines: what stands between the lines of a key is not of the key.
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
    """Whether a secret is so short or so common a text that longer words and numbers hold it by accident."""
    if len(secret) < _SHORT:
        return True
    word = secret.isalpha() and (secret.islower() or secret.isupper() or secret.istitle())
    return len(secret) <= _LONGEST_WORD and (word or secret.isdecimal())


def _alone(secret: str) -> str:
    """An expression for a secret that is no part of a word; where it begins or ends otherwise, anything may be.

    But not around a blank or a dash, say, which would be every one of a text.
    """
    mark = not any(map(str.isalnum, secret))
    before = _ALONE_BEFORE if mark or secret[0].isalnum() else ""
    after = _ALONE_AFTER if mark or secret[-1].isalnum() else ""
    return f"{before}{re.escape(secret)}{after}"


class RedactingFilter(logging.Filter):
    """Put it on a log handler: no line that passes holds a known secret, in its text, arguments or trace.

    It is the last net. Whoever makes a text leaves secrets out of it. `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kept: frozenset[str] = frozenset()
        # When each was last heard of or in use, in that order, and of whom.
        self._learned: dict[str, tuple[float, str]] = {}
        self._in_use: frozenset[str] = frozenset()
        self._longest_first: tuple[str, ...] = ()
        self._learning = threading.Lock()

    def keep(self, secrets: Iterable[str]) -> None:
        """Hide these for ever."""
        with self._learning:
            self._kept |= frozenset(secrets)
            self._sort()

    def learn(self, secrets: Iterable[str], owner: str = "") -> None:
        """Hide these, too, until they are forgotten or too many others were heard of since; from any thread.

        `owner`: the connector whose they are. Newer ones of its own take their place beyond MOST_OF_ONE forms, those of
        others beyond MOST_LEARNED; but none takes the place of one that was in use at the last `forget_all_but`.
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
        """Forget what was learned and is neither in use nor was so, or heard of, within GRACE_S; from any thread."""
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
