"""Java's SimpleDateFormat in UTC, with English names: texts of points in time, and back.

Reading is lenient as in Java: a month of 13 is January of the next year, and text behind the last field is left alone.
Letters whose meaning depends on more than the date are refused: weeks, eras and names of time zones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_connect.connectors.json_steps.java_calendar import DAY_MS, date_of, day_of
from mirror_connect.connectors.json_steps.java_numbers import wrapped

LETTERS: Final = "yMdHhKkmsSaEZX"
_JAVAS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
_HALVES: Final = ("AM", "PM")
_NUMBER: Final = re.compile(r"-?(\d++)")
_YEAR_MS: Final = 31_556_952_000
# Java's two-digit years lie in the hundred years that began so many years ago.
_CENTURY_AGO: Final = 80
_LONG_DIGITS: Final = 18


class WrongFormat(Exception):
    """The format can't be used; the text says why, in half a sentence."""


class NoDate(Exception):
    """A text has not the form."""


class _Token(NamedTuple):
    """`letter` and how many times it stands there, or a literal text with no letter."""

    letter: str
    times: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class JavaDateFormat:
    """See the module. `begins_ms`: where the hundred years of two-digit years begin."""

    pattern: str
    tokens: tuple[_Token, ...]
    begins_ms: int

    @classmethod
    def of(cls, pattern: str) -> JavaDateFormat:
        """WrongFormat."""
        tokens = tuple(_tokens(pattern))
        letters = {token.letter for token in tokens}
        if letters & {"H", "k"} and letters & {"h", "K"}:
            raise WrongFormat("it has hours of 24 and of 12")
        if "E" in letters and "d" not in letters:
            raise WrongFormat("it has the day of the week (E) without that of the month (d)")
        return cls(pattern, tokens, int(time.time() * 1000) - _CENTURY_AGO * _YEAR_MS)

    def text_of(self, ms: int) -> str:
        """The text of a point in time, in milliseconds since 1970."""
        day, left = divmod(ms, DAY_MS)
        year, month, day_of_month = date_of(day)
        hour, left = divmod(left, 3_600_000)
        minute, left = divmod(left, 60_000)
        second, millis = divmod(left, 1000)
        numbers = {
            "d": day_of_month, "H": hour, "k": hour or 24, "h": hour % 12 or 12, "K": hour % 12, "m": minute, "s": second,
            "S": millis, "M": month + 1,
        }  # fmt: skip
        parts: list[str] = []
        for letter, count, text in self.tokens:
            if not letter:
                parts.append(text)
            elif letter == "y":
                of_era = year if year > 0 else 1 - year
                parts.append(f"{of_era % 100:02}" if count == 2 else f"{of_era:0{count}}")
            elif letter == "M" and count > 2:
                parts.append(_MONTHS[month] if count > 3 else _MONTHS[month][:3])
            elif letter == "E":
                parts.append(_DAYS[day % 7] if count > 3 else _DAYS[day % 7][:3])
            elif letter == "a":
                parts.append(_HALVES[hour // 12])
            elif letter in "ZX":
                parts.append("+0000" if letter == "Z" else "Z")
            else:
                parts.append(f"{numbers[letter]:0{count}}")
        return "".join(parts)

    def ms_of(self, text: str) -> int:
        """The point in time that a text means. NoDate."""
        found: dict[str, int] = {}
        short_year, at = False, 0
        for place, token in enumerate(self.tokens):
            if not token.letter:
                if not text.startswith(token.text, at):
                    raise NoDate
                at += len(token.text)
                continue
            abuts = place + 1 < len(self.tokens) and bool(self.tokens[place + 1].letter)
            begin = at
            value, at = _read(text, at, token, abuts=abuts)
            found[token.letter] = value
            if token.letter == "y":
                digits = text[begin:at].lstrip(" \t")
                short_year = token.times <= 2 and len(digits) == 2 and digits.isdecimal()
        return self._ms(found, short_year=short_year)

    def _ms(self, found: dict[str, int], *, short_year: bool) -> int:
        year = found.get("y", 1970)
        again = False
        if short_year:
            begins = date_of(self.begins_ms // DAY_MS)[0]
            again = year == begins % 100
            year += begins - begins % 100 + (100 if year < begins % 100 else 0)
        ms = self._of_year(found, year)
        return self._of_year(found, year + 100) if again and ms < self.begins_ms else ms

    def _of_year(self, found: dict[str, int], year: int) -> int:
        day = day_of(year, found.get("M", 1) - 1, found.get("d", 1))
        if "H" in found or "k" in found:
            hour = found.get("H", 0) if "H" in found else found["k"] % 24 if found["k"] == 24 else found["k"]
        else:
            twelve = found.get("h", found.get("K", 0))
            hour = (0 if "h" in found and twelve == 12 else twelve) + 12 * found.get("a", 0)
        seconds = hour * 3600 + found.get("m", 0) * 60 + found.get("s", 0)
        zone = found.get("X", found.get("Z", 0))
        return day * DAY_MS + seconds * 1000 + found.get("S", 0) - zone * 60_000


def _tokens(pattern: str) -> Sequence[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            found.append(_Token("", 0, text))
        elif char.isascii() and char.isalpha():
            if char not in _JAVAS:
                raise WrongFormat(f"Illegal pattern character '{char}'")
            if char not in LETTERS:
                raise WrongFormat(f"its letter {char} can't be used here. These can: {LETTERS}")
            end = at
            while end < len(pattern) and pattern[end] == char:
                end += 1
            if char == "X" and end - at > 3:
                raise WrongFormat(f"invalid ISO 8601 format: length={end - at}")
            found.append(_Token(char, end - at))
            at = end
        else:
            found.append(_Token("", 0, char))
            at += 1
    return found


def _quoted(pattern: str, begin: int) -> tuple[str, int]:
    """The literal text from a quote on, and what follows it. Two quotes are one."""
    if pattern.startswith("''", begin):
        return "'", begin + 2
    text, at = "", begin + 1
    while True:
        end = pattern.find("'", at)
        if end < 0:
            raise WrongFormat("Unterminated quote")
        text += pattern[at:end]
        if not pattern.startswith("''", end):
            return text, end + 1
        text += "'"
        at = end + 2


def _read(text: str, begin: int, token: _Token, *, abuts: bool) -> tuple[int, int]:
    """The value of a field, and the place behind it. `abuts`: the next field follows without a text between. NoDate."""
    at = begin
    while at < len(text) and text[at] in " \t":
        at += 1
    if at >= len(text):
        raise NoDate
    if token.letter == "E":
        return 0, begin + _matched(text, begin, _DAYS)[1]
    if token.letter == "a":
        half, length = _matched(text, begin, _HALVES)
        return half, begin + length
    if token.letter == "M" and token.times > 2:
        month, length = _matched(text, begin, _MONTHS)
        return month + 1, begin + length
    if token.letter in "ZX":
        return _zone(text, at, token)
    end = len(text)
    if abuts:
        end = begin + token.times
        if end > len(text):
            raise NoDate
    found = _NUMBER.match(text, at, end)
    if found is None:
        raise NoDate
    value = int(found[1]) if len(found[1]) <= _LONG_DIGITS else (1 << 31) - 1
    return wrapped(-value if found[0].startswith("-") else value, 32), found.end()


def _matched(text: str, begin: int, names: Sequence[str]) -> tuple[int, int]:
    """Which of the names stands there in any case, whole or by three letters, and how long it is. NoDate."""
    best = (0, 0)
    for number, name in enumerate(names):
        for form in (name, name[:3]):
            if len(form) > best[1] and text[begin : begin + len(form)].lower() == form.lower():
                best = (number, len(form))
    if not best[1]:
        raise NoDate
    return best


def _zone(text: str, at: int, token: _Token) -> tuple[int, int]:
    """The minutes that a zone is ahead of UTC."""
    iso = token.letter == "X"
    if iso and text[at] == "Z":
        return 0, at + 1
    behind_gmt = not iso and text[at : at + 3].lower() == "gmt"
    at += 3 if behind_gmt else 0
    if behind_gmt and text[at : at + 1] not in {"+", "-"}:
        return 0, at
    form = r"([+-])(\d\d?):(\d\d)" if behind_gmt else _ZONES[token.times if iso else 0]
    found = re.compile(form, re.ASCII).match(text, at)
    if found is None:
        raise NoDate
    sign, hours, minutes = (*found.groups(), "0")[:3]
    if int(hours) > 23 or int(minutes) > 59:
        raise NoDate
    return (int(hours) * 60 + int(minutes)) * (-1 if sign == "-" else 1), found.end()


# How X, XX and XXX, and Z (0), write a zone.
_ZONES: Final = (r"([+-])(\d\d)(\d\d)", r"([+-])(\d\d)", r"([+-])(\d\d)(\d\d)", r"([+-])(\d\d):(\d\d)")
