"""A Java login configuration file (`java.security.auth.login.config`): named sections of login modules.

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
        file="/etc/connect/users.properties";
    };

Where it is, the worker is told as a Java worker is: by `-Djava.security.auth.login.config=FILE` in KAFKA_OPTS.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mirror_connect.app.errors import StartupError

PROPERTY: Final = "-Djava.security.auth.login.config="
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | "(?P<quoted>(?:[^"\\\n]|\\.)*)"
      | (?P<mark>[{};=])
      | (?P<word>[^\s{};="/]+(?:/(?![/*])[^\s{};="/]*)*|/(?![/*])[^\s{};="]*)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One module of a section; its options may hold secrets."""

    class_name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


def find_jaas_file(environment: Mapping[str, str]) -> Path | None:
    """The file named in KAFKA_OPTS; the last of several counts, as in a JVM. None if none is named."""
    try:
        options = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise StartupError(f"The environment variable KAFKA_OPTS can't be read: {error}") from None
    named = [option.removeprefix(PROPERTY) for option in options if option.startswith(PROPERTY)]
    if not named or not named[-1].lstrip("="):
        return None
    return Path(re.sub(r"^file:(//)?(?=/)", "", named[-1].lstrip("=")))


def read_text(path: Path, what: str) -> str:
    """The text of a small file, UTF-8 or else Latin-1; StartupError names the file and the reason."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StartupError(f"{what} {path} can't be read: {error.strerror or error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def login_modules(path: Path, section: str) -> list[LoginModule]:
    """The modules of a section; StartupError for a file that is unreadable, malformed or without that section."""
    words = _words(path, read_text(path, "The login configuration file"))
    found: dict[str, list[LoginModule]] = {}
    while words:
        name = words.pop(0)
        _expect(path, words, "{")
        modules = found.setdefault(name, [])
        while words and words[0] != "}":
            modules.append(_module(path, words))
        _expect(path, words, "}")
        _expect(path, words, ";")
    if section not in found:
        raise StartupError(f"The login configuration file {path} has no section {section}; add one")
    return found[section]


def _module(path: Path, words: list[str]) -> LoginModule:
    class_name, flag = words.pop(0), (words.pop(0) if words else "")
    if flag.lower() not in ("required", "requisite", "sufficient", "optional"):
        raise _malformed(path, f"'required' is expected after {class_name}")
    options: dict[str, str] = {}
    while words and words[0] != ";":
        option = words.pop(0)
        _expect(path, words, "=")
        if not words:
            raise _malformed(path, f"the option {option} has no value")
        options[option] = words.pop(0).removeprefix('"')
    _expect(path, words, ";")
    return LoginModule(class_name, flag.lower(), options)


def _words(path: Path, text: str) -> list[str]:
    """Tokens; a quoted one keeps its opening quote, so that it is never taken for a mark."""
    words, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _malformed(path, f"line {text.count(chr(10), 0, position) + 1} can't be understood")
        position = match.end()
        if match["quoted"] is not None:
            words.append('"' + re.sub(r"\\(.)", r"\1", match["quoted"]))
        elif match["skip"] is None:
            words.append(match.group())
    return words


def _expect(path: Path, words: list[str], mark: str) -> None:
    if not words or words.pop(0) != mark:
        raise _malformed(path, f"'{mark}' is missing")


def _malformed(path: Path, reason: str) -> StartupError:
    return StartupError(f"The login configuration file {path} is malformed: {reason}")
