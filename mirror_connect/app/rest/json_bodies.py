"""Request bodies: JSON as Kafka Connect takes it.

Config values are text; a number or boolean becomes its text as written (`1.50`, `1e3`). If a key occurs twice, the last one
counts. For malformed JSON, a wrong type or no body Connect answers 500 by accident; this answers 400.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mirror_connect.app.errors import BadRequest, BodyTooLarge

if TYPE_CHECKING:
    # A standalone worker parses its connectors' files here before it imports what serves HTTP.
    from starlette.requests import Request

# Connector configs of some MB are valid (long topic lists); the broker decides how much the config topic takes.
BODY_LIMIT: Final = 16 * 1024 * 1024


# Larger bodies are parsed in a thread, one after the other: the loop must keep the lease, and a parsed body takes many
# times the memory of its text.
SMALL_BODY: Final = 64 << 10
_PARSING: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parsing")


# In a request's scope: its body for forwarding.py; what checks the body of a request that another worker signed.
BODY: Final = "mirror_connect.body"
VERIFIED: Final = "mirror_connect.verified"


class NumberText(str):
    """A JSON number as it was written."""

    __slots__ = ()


async def read_body(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """Reads the whole body; BodyTooLarge as soon as it is longer than `limit`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BodyTooLarge(limit)
    whole = bytes(body)
    if (verified := request.scope.get(VERIFIED)) is not None:
        await asyncio.to_thread(verified.check_body, whole)
    request.scope[BODY] = whole
    return whole


async def parsed(body: bytes) -> Any:
    """As `parse_json`, but in a thread if it may take long."""
    if len(body) <= SMALL_BODY:
        return parse_json(body)
    return await asyncio.get_running_loop().run_in_executor(_PARSING, parse_json, body)


def parse_json(body: bytes) -> Any:
    """The JSON value, numbers as NumberText. BadRequest names the position of the error, without quoting the body."""
    if not body.strip():
        raise BadRequest("The request has no body; a JSON object is needed")
    try:
        text = body.decode(json.detect_encoding(body))
        value = json.loads(text, parse_int=NumberText, parse_float=NumberText, parse_constant=_no_constant)
        # JSON can hold lone surrogates, a topic cannot.
        _refuse_surrogates(text)
    except json.JSONDecodeError as error:
        # error.doc may hold passwords: the answer has only the position.
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"The request body is not valid JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError:
        raise BadRequest("The request body is not valid JSON: it is not encoded in UTF-8") from None
    except RecursionError:
        raise BadRequest("The request body is not valid JSON: it is nested too deeply") from None
    return value


def config_from(value: Any, what: str = "The request body") -> dict[str, str | None]:
    """A connector config in its order, with None for `null`, which only PATCH uses."""
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object of settings and not {_kind(value)}")
    return {name: text_of(member, f"The value of '{name}'") for name, member in value.items()}


def text_of(value: Any, what: str) -> str | None:
    """A scalar as text, None for null; BadRequest for objects and arrays."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    raise BadRequest(f"{what} must be text, a number or a boolean and not {_kind(value)}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, NumberText):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "an array" if isinstance(value, list) else "an object"


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no JSON number", "", 0)


def _refuse_surrogates(text: str) -> None:
    if "\\u" not in text and "\\U" not in text:
        return
    try:
        # Numbers as text: Python refuses integers of thousands of digits.
        json.dumps(json.loads(text, parse_int=str, parse_float=str), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadRequest("The request body is not valid JSON: it holds half of a surrogate pair") from None
