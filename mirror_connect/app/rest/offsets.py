"""/connectors/{name}/offsets: lists, sets and resets a connector's source offsets."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.responses import JSONResponse

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.source_offsets import Change
from mirror_connect.app.rest.answers import answer, errors
from mirror_connect.app.rest.bodies import MessageBody, NewOffsetBody, OffsetsBody
from mirror_connect.app.rest.connectors import json_body
from mirror_connect.app.rest.json_bodies import NumberText

_ALTER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"offsets": {"type": "array", "items": NewOffsetBody.model_json_schema()}},
                    "required": ["offsets"],
                    "additionalProperties": False,
                    "examples": [
                        {
                            "offsets": [
                                {
                                    "partition": {"cluster": "A", "topic": "orders", "partition": 0},
                                    "offset": {"offset": 41},
                                }
                            ]
                        }
                    ],
                }
            }
        },
    }
}
_INTEGER: Final = re.compile(r"-?\d{1,19}")
# A normal partition has one level. Each level takes some of the interpreter's stack when it is encoded.
_DEPTH: Final = 50


def add_offset_routes(application: FastAPI, herder: Herder) -> None:
    """Adds the resource of a connector's offsets."""

    @application.get("/connectors/{name}/offsets", responses={200: {"model": OffsetsBody}, **errors(404)})
    async def get_offsets(name: str) -> Response:
        """The committed source offsets of a connector, whether it runs or not."""
        entries = await herder.source_offsets.list(name)
        # Not through the model: for a hundred thousand it would block the loop, which keeps the lease, for a second.
        return JSONResponse({"offsets": [{"partition": each.partition, "offset": each.offset} for each in entries]})

    @application.patch(
        "/connectors/{name}/offsets",
        openapi_extra=_ALTER_BODY,
        responses={200: {"model": MessageBody}, **errors(403, 404, 409, 413)},
    )
    async def alter_offsets(name: str, request: Request) -> Response:
        """Sets source offsets of a stopped connector; a null offset removes one. All of them or none."""
        changes = _changes(await json_body(request))
        await herder.source_offsets.alter(name, changes)
        return answer(MessageBody(message="The offsets for this connector have been altered successfully"))

    @application.delete("/connectors/{name}/offsets", responses={200: {"model": MessageBody}, **errors(403, 404, 409)})
    async def reset_offsets(name: str) -> Response:
        """Removes all source offsets of a stopped connector."""
        await herder.source_offsets.reset(name)
        return answer(MessageBody(message="The offsets for this connector have been reset successfully"))


def _changes(body: Any) -> list[Change]:
    if not isinstance(body, dict):
        raise BadRequest("The request body must be a JSON object with the member offsets")
    _known(body, ("offsets",))
    entries = body.get("offsets")
    if entries is None or entries == []:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadRequest("The member offsets must be an array of objects with the members partition and offset")
    return [_change(entry) for entry in entries]


def _change(entry: dict[str, Any]) -> Change:
    _known(entry, ("partition", "offset"))
    found = []
    for member in ("partition", "offset"):
        value = entry.get(member)
        if not (value is None or isinstance(value, dict)):
            raise BadRequest(f"The member {member} of an entry of offsets must be a JSON object or null")
        found.append(_plain(value))
    return found[0], found[1]


def _known(found: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in found:
        if name not in names:
            raise BadRequest(f'Unrecognized field "{name}"; known here: {", ".join(names)}')


def _plain(value: Any, depth: int = _DEPTH) -> Any:
    """The value with its numbers as numbers: integers of 64 bits, or doubles."""
    if depth == 0:
        raise BadRequest(f"The request body is nested more than {_DEPTH} levels deep")
    if isinstance(value, NumberText):
        return _number(value)
    if isinstance(value, dict):
        return {name: _plain(member, depth - 1) for name, member in value.items()}
    return [_plain(item, depth - 1) for item in value] if isinstance(value, list) else value


def _number(text: str) -> int | float:
    whole = not any(sign in text for sign in ".eE")
    if not whole:
        number = float(text)
        if abs(number) != float("inf"):
            return number
    elif _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    raise BadRequest("A number in the request body is too large: integers have 64 bits, other numbers are doubles")
