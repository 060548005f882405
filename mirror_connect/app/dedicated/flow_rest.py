"""The internal REST of dedicated mode: one herder's resources for each flow, below /SOURCE/TARGET.

Kafka's has only the two resources that its workers call, which are signed. Here everything that reads is served too.
/admin/links has the links of all flows, and /ui the page that shows them; each flow has a page below its path, too. A
connector's config comes from the file, so nothing here changes one: a flow's application has no such routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mirror_connect.app.errors import Unauthorized
from mirror_connect.app.rest.application import BY_THE_FILE
from mirror_connect.app.rest.basic_auth import Authenticator
from mirror_connect.app.storage.status import CONNECT_VERSION
from mirror_connect.app.version import COMMIT

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

# Of all flows together: their links, and the page that shows these.
OF_ALL: Final = (b"/admin/links", b"/ui")
METRICS: Final = b"/metrics"

# The application of a flow's herder; None while the flow is not up.
ApplicationOf = Callable[[], ASGIApp | None]


def flow_path(source: str, target: str) -> str:
    """The beginning of a flow's paths: `/A/B`."""
    return f"/{quote(source, safe='')}/{quote(target, safe='')}"


class FlowsApplication:
    """See the module. `flows`: name → its path and application, as (`A->B`, (`/A/B`, application)).

    Every one of `authenticators` must accept the credentials; a flow's application asks them by itself. `links` serves
    /admin/links of all flows and `metrics` /metrics; both ask them by themselves, too.
    """

    def __init__(
        self,
        flows: Mapping[str, tuple[str, ApplicationOf]],
        authenticators: Sequence[Authenticator] = (),
        links: ASGIApp | None = None,
        metrics: ASGIApp | None = None,
    ) -> None:
        self._flows = flows
        self._links = links
        self._metrics = metrics
        self._authenticators = authenticators

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> ASGIApp:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"#")[0]
        for name, (beginning, application_of) in self._flows.items():
            own = beginning.encode()
            if path == own or path.startswith(own + b"/"):
                application = application_of()
                return self._not_up(scope, name) if application is None else _below(application, len(own))
        if self._links is not None and any(path == each or path.startswith(each + b"/") for each in OF_ALL):
            return self._links
        if self._metrics is not None and path == METRICS:
            return self._metrics
        if path != b"/":
            return self._checked(scope, _error(404, f"HTTP 404 Not Found. GET / has the flows' paths. {BY_THE_FILE}"))
        if scope["method"] not in READING:
            return self._checked(scope, _error(405, f"HTTP 405 Method Not Allowed. {BY_THE_FILE}"))
        return self._checked(scope, self._root())

    def _not_up(self, scope: Scope, name: str) -> Response:
        return self._checked(scope, _error(503, f"Flow {name} is not up. The log of this process says why"))

    def _checked(self, scope: Scope, answer: Response) -> Response:
        """The answer for those who may see it: it names clusters."""
        credentials = Headers(scope=scope).get("authorization")
        try:
            for authenticator in self._authenticators:
                authenticator.check(credentials)
        except Unauthorized as refused:
            return Response(str(refused), status_code=401, media_type="application/json")
        return answer

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
