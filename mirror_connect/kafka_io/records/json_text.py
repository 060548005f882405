"""JSON of keys and values: read and written so that numbers, order of fields and characters stay what they are.

What is no JSON by its standard is refused: NaN, comments, more text behind the value, other encodings than UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

from mirror_connect.connectors.record_errors import StepError

_SPACE: Final = b" \t\r\n"


def no_constant(name: str) -> NoReturn:
    """Refuses NaN and the like, as a decoder's parse_constant."""
    raise ValueError(f"{name} is no JSON")


_decode: Final = json.JSONDecoder(parse_constant=no_constant).decode
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# Half of a surrogate pair has no form in UTF-8, but an escape.
_encode_ascii: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def read(data: bytes | None) -> Any:
    """The value of a JSON text. None: there is no text, or a blank one. StepError."""
    return None if data is None else decoded(data, _decode)


def decoded(data: bytes, decode: Callable[[str], Any]) -> Any:
    """The value of a JSON text by a decoder, which refuses what `read` refuses. None: the text is blank. StepError."""
    try:
        return decode(data.decode())
    except json.JSONDecodeError as error:
        if not data.strip(_SPACE):
            return None
        raise StepError(f"is no JSON at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise StepError(f"is no UTF-8 at byte {error.start + 1}") from None
    except RecursionError:
        raise StepError("is JSON that is nested too deeply") from None
    except (ValueError, ArithmeticError):
        raise StepError("is no JSON: it has NaN, Infinity, or a number of thousands of digits") from None


def written(value: Any) -> bytes | None:
    """The JSON text of a value; None for null, which makes a tombstone of the record. StepError."""
    if value is None:
        return None
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except ValueError:
        raise StepError("has a number that is too large for JSON") from None
    except TypeError:
        raise StepError("has a Date, Time or Timestamp, which JSON can't hold: make it a string or unix") from None
    except RecursionError:
        raise StepError("is nested too deeply for JSON") from None
