"""Parses Java's login modules: the value of `sasl.jaas.config`, and the sections of a login configuration file.

Grammar: `CLASS FLAG (OPTION=VALUE)* ;`, a value quoted (`"` or `'`, Java's backslash escapes) or a bare word, `//`, `/* */`
and, in files, `#` comments. Taken from Kafka's JaasConfig (kafka-clients 4.3.1), which is stricter only with bare words.
No text of an option ever gets into an error: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<mark>[{};=])
      | (?P<word>(?:[^\s{};="'/\#]|/(?![/*]))+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """The text is no login configuration; says what is missing where, without quoting values."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module and its options, which may hold secrets."""

    class_name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        """The class without its package."""
        return self.class_name.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str = field(repr=False)


def parse_login(text: str) -> LoginModule:
    """The one login module of a `sasl.jaas.config`. Raises JaasError."""
    tokens = _tokens(text)
    if not tokens:
        raise JaasError("no login module is named")
    module = _module(tokens)
    if tokens:
        raise JaasError("only one login module is possible here")
    return module


def login_text(module: LoginModule) -> str:
    """The text of a module, which `parse_login` reads as this module."""
    options = "".join(f" {name}={_quoted(value)}" for name, value in module.options.items())
    return f"{module.class_name} {module.flag}{options};"


def _quoted(value: str) -> str:
    marks = {ord("\\"): "\\\\", ord('"'): '\\"', **{ord(character): f"\\{name}" for name, character in _NAMED.items()}}
    return f'"{value.translate(marks)}"'


def parse_sections(text: str) -> dict[str, list[LoginModule]]:
    """The sections of a login configuration file: `NAME { modules };` …. Raises JaasError."""
    tokens = _tokens(text)
    sections: dict[str, list[LoginModule]] = {}
    while tokens:
        name = _take(tokens, "the name of a section").text
        _expect(tokens, "{", f"after section {name}")
        modules = sections.setdefault(name, [])
        while tokens and tokens[0] != _Token("mark", "}"):
            modules.append(_module(tokens))
        _expect(tokens, "}", f"at the end of section {name}")
        _expect(tokens, ";", f"after section {name}")
    return sections


def _module(tokens: list[_Token]) -> LoginModule:
    class_name = _take(tokens, "the class of a login module").text
    # A text without a class may be a password put into the wrong place: only what looks like a class is shown.
    shown = class_name if class_name.endswith("LoginModule") else "the class of the login module"
    flag = _take(tokens, f"'required' after {shown}").text.lower()
    if flag not in _FLAGS:
        raise JaasError(f"'required' is missing after {shown}")
    options: dict[str, str] = {}
    while tokens and tokens[0] != _Token("mark", ";"):
        option = _take(tokens, "an option").text
        if not tokens or tokens[0] != _Token("mark", "="):
            # What stands there may be the second half of a password with a blank in it: it isn't shown.
            last = f" after the option {next(reversed(options))}" if options else ""
            raise JaasError(
                f"'=' is missing{last}; a value with blanks or marks has to be in quotes, and ';' at the end"
            )
        tokens.pop(0)
        options[option] = _take(tokens, f"the value of the option {option}").text
    _expect(tokens, ";", "at the end of the login module")
    return LoginModule(class_name, flag, options)


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            what = "a quotation mark isn't closed" if text[position] in "\"'" else "a character has no meaning there"
            raise JaasError(f"{what} (line {line})")
        position = match.end()
        kind = match.lastgroup or "skip"
        if kind in ("double", "single"):
            tokens.append(_Token("quoted", _ESCAPE.sub(_unescaped, match[kind])))
        elif kind != "skip":
            tokens.append(_Token(kind, match[kind]))
    return tokens


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    return chr(int(what, 8)) if what.isdigit() and what[0] in "01234567" else _NAMED.get(what, what)


def _take(tokens: list[_Token], what: str) -> _Token:
    if not tokens or tokens[0].kind == "mark":
        raise JaasError(f"{what} is missing")
    return tokens.pop(0)


def _expect(tokens: list[_Token], mark: str, where: str) -> None:
    if not tokens or tokens.pop(0) != _Token("mark", mark):
        raise JaasError(f"'{mark}' is missing {where}")
