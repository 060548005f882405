"""The internal REST of dedicated mode: one herder's resources for each flow, below /SOURCE/TARGET.

Kafka's has only the two resources that its workers call, which are signed. Here everything that reads is served too. A
connector's config comes from the file, so nothing here changes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mirror_connect.app.storage.status import CONNECT_VERSION
from mirror_connect.app.version import COMMIT

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What Kafka's workers call: their signature is checked, and they are refused.
_SIGNED: Final = frozenset({("POST", b"tasks"), ("PUT", b"fence")})

# The application of a flow's herder; None while the flow is not up.
ApplicationOf = Callable[[], ASGIApp | None]


def flow_path(source: str, target: str) -> str:
    """The beginning of a flow's paths: `/A/B`."""
    return f"/{quote(source, safe='')}/{quote(target, safe='')}"


class FlowsApplication:
    """See the module. `flows`: name → its path and application, as (`A->B`, (`/A/B`, application))."""

    def __init__(self, flows: Mapping[str, tuple[str, ApplicationOf]]) -> None:
        self._flows = flows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> ASGIApp:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if raw == b"/":
            return self._root() if scope["method"] in READING else _error(405, "HTTP 405 Method Not Allowed")
        for name, (path, application_of) in self._flows.items():
            own = path.encode()
            if raw != own and not raw.startswith(own + b"/"):
                continue
            if scope["method"] not in READING and (scope["method"], raw.rpartition(b"/")[2]) not in _SIGNED:
                return _error(
                    405, f"The connectors of flow {name} are configured by its file; change that and start again"
                )
            if (application := application_of()) is None:
                return _error(503, f"Flow {name} is not up. The log of this process says why")
            return _below(application, len(own))
        return _error(404, "HTTP 404 Not Found")

    def _root(self) -> JSONResponse:
        flows = {name: path for name, (path, _) in self._flows.items()}
        return JSONResponse({"version": CONNECT_VERSION, "commit": COMMIT, "flows": flows})


def _below(application: ASGIApp, length: int) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        rest = raw[length:] or b"/"
        await application({**scope, "raw_path": rest, "path": rest.decode("latin-1")}, receive, send)

    return answer


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error_code": status, "message": message}, status_code=status)
