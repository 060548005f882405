"""Builds the ASGI application: routes, the order of checks before them, and one way to render every error.

Order, as in Connect: path, method, content types, credentials, then the resource. So an unknown path is 404 and a wrong
method 405 for everybody, and without credentials no answer shows anything of a resource. A path, or a header with content
types, that can't be read at all is 400 before everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp

from mirror_connect.app.config.cross_origins import CrossOrigins
from mirror_connect.app.config.response_headers import HeaderRule
from mirror_connect.app.errors import ConnectError, ReadOnly, Unauthorized, WrongWorker
from mirror_connect.app.exposition.exposition import Exposition
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.added_headers import ConfiguredHeaders, CrossOrigin
from mirror_connect.app.rest.admin import add_admin_routes
from mirror_connect.app.rest.basic_auth import Authenticator
from mirror_connect.app.rest.body_budget import BodyBudget
from mirror_connect.app.rest.connectors import add_connector_routes
from mirror_connect.app.rest.docs import add_contract_route
from mirror_connect.app.rest.foreign_pages import ForeignPages
from mirror_connect.app.rest.forwarding import Forwarding
from mirror_connect.app.rest.jetty_errors import bad_header
from mirror_connect.app.rest.links import Links, add_link_routes
from mirror_connect.app.rest.media_types import BadMediaType, accepted, negotiate
from mirror_connect.app.rest.metrics import add_metrics_route
from mirror_connect.app.rest.offsets import add_offset_routes
from mirror_connect.app.rest.pages import add_page_routes
from mirror_connect.app.rest.plugins import add_plugin_routes
from mirror_connect.app.rest.server import add_server_routes
from mirror_connect.app.rest.uris import UriGate, whole_names
from mirror_connect.app.rest.worker_figures import add_figures_route
from mirror_connect.app.rest.worker_requests import SIGNED_PATHS, add_worker_routes, is_forwarded, is_signed
from mirror_connect.app.rest.workers import add_workers_route
from mirror_connect.app.version import API_VERSION

log = logging.getLogger(__name__)

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Whatever their method. What Connect's workers call is refused anyway. A plan is not among them: the worker logs in wherever
# the request says, with what its config providers give, so whoever may only read could have secrets sent anywhere.
_CHANGE_NOTHING: Final = SIGNED_PATHS | {"/connector-plugins/{plugin}/config/validate"}
# Dedicated mode.
BY_THE_FILE: Final = (
    "A file configures the connectors, and REST only reads: change the file, or start the process again"
)
_REASONS = {413: "Request Entity Too Large"}


@dataclass(frozen=True, slots=True)
class Surface:
    """What the main listeners serve besides Connect's resources, and what they add to every answer.

    `read_only`: no route changes anything. What Connect's workers call stays: its signature is checked, and it is refused.
    `refuses_writes`: such routes are there, and answer 403.
    """

    admin: bool = True
    docs: bool = True
    ui: bool = True
    read_only: bool = False
    refuses_writes: bool = False
    header_rules: tuple[HeaderRule, ...] = ()
    cross_origins: CrossOrigins | None = None
    # Shared with the other listeners; None: a budget of its own.
    budget: BodyBudget | None = None
    # None: there is no /metrics.
    exposition: Exposition | None = None


def create_application(
    herder: Herder, authenticators: Sequence[Authenticator] = (), surface: Surface = Surface()
) -> ASGIApp:
    """The REST interface. Every one of `authenticators` must accept the credentials (app/rest/basic_auth.py)."""
    budget = BodyBudget() if surface.budget is None else surface.budget
    application = UriGate(create_api(herder, authenticators, surface), herder.connectors.has)
    return with_headers(budget.guard(ForeignPages(application, surface.cross_origins)), surface)


def with_headers(application: ASGIApp, surface: Surface) -> ASGIApp:
    """With the headers that the surface adds to every answer."""
    if surface.cross_origins is not None:
        application = CrossOrigin(application, surface.cross_origins)
    return ConfiguredHeaders(application, surface.header_rules) if surface.header_rules else application


def create_admin_application(
    herder: Herder, authenticators: Sequence[Authenticator] = (), surface: Surface = Surface()
) -> ASGIApp:
    """What separate `admin.listeners` serve: only /admin, without CORS and configured headers, as in Connect."""
    application = _without_routes(authenticators, refuses_writes=surface.refuses_writes)
    add_admin_routes(application, herder)
    add_link_routes(application, lambda: herder.links, read_only=surface.refuses_writes)
    add_workers_route(application, lambda: herder.workers)
    gate = UriGate(application, herder.connectors.has)
    return (surface.budget or BodyBudget()).guard(ForeignPages(gate, None))


def create_links_application(
    links: Links, authenticators: Sequence[Authenticator] = (), surface: Surface = Surface()
) -> ASGIApp:
    """The links of all flows of a process, and the page that shows them."""

    async def authenticate(request: Request) -> None:
        await _authenticate(authenticators, request)

    application = _without_routes(authenticators)
    add_link_routes(application, lambda: links, read_only=True)
    add_page_routes(application, authenticate, ui=surface.ui, docs=False)
    return (surface.budget or BodyBudget()).guard(UriGate(application, lambda _: False))


def create_metrics_of_flows(exposition: Exposition, authenticators: Sequence[Authenticator] = ()) -> ASGIApp:
    """The metrics of a process with several flows."""
    application = _without_routes(authenticators)
    add_metrics_route(application, exposition, lambda request: _authenticate(authenticators, request))
    return UriGate(application, lambda _: False)


def create_api(herder: Herder, authenticators: Sequence[Authenticator] = (), surface: Surface = Surface()) -> FastAPI:
    """The routes, without the gate before them; openapi.yaml is made from this."""
    left_out: list[BaseRoute] = []

    async def authenticate(request: Request) -> None:
        await _authenticate(authenticators, request)

    application = _without_routes(
        authenticators,
        left_out,
        refuses_writes=surface.refuses_writes,
        of_a_worker=lambda request: is_forwarded(herder, request),
    )
    _forward(application, herder)
    add_server_routes(application, herder)
    add_connector_routes(application, herder)
    add_offset_routes(application, herder)
    add_worker_routes(application, herder)
    add_figures_route(application, herder)
    add_plugin_routes(application, herder)
    # At `listeners` whatever admin.listeners says: it shows no more than the connectors' statuses there, and page and
    # command line need both.
    add_link_routes(application, lambda: herder.links, read_only=surface.read_only or surface.refuses_writes)
    add_workers_route(application, lambda: herder.workers)
    if surface.admin:
        add_admin_routes(application, herder)
    if surface.docs:
        add_contract_route(application, authenticate)
    add_page_routes(application, authenticate, ui=surface.ui, docs=surface.docs)
    if surface.exposition is not None:
        add_metrics_route(application, surface.exposition, authenticate)
    if surface.read_only:
        left_out += [each for each in application.routes if not _changes_nothing(each)]
        application.router.routes[:] = [each for each in application.routes if each not in left_out]
    return application


def _forward(application: FastAPI, herder: Herder) -> None:
    forwarding = Forwarding(herder)

    @application.exception_handler(WrongWorker)
    async def forward(request: Request, error: WrongWorker) -> Response:
        try:
            if is_signed(request):
                # The sender signed it for this worker, and sends it again to the leader.
                raise error
            return await forwarding.answer(request, error)
        except Unauthorized as refused:
            return _refusal(refused)
        except ConnectError as failed:
            return _error(failed.status, str(failed))


def _changes_nothing(route: BaseRoute) -> bool:
    return isinstance(route, Route) and ((route.methods or set()) <= _READING or route.path in SIGNED_PATHS)


def _without_routes(
    authenticators: Sequence[Authenticator],
    left_out: Sequence[BaseRoute] = (),
    *,
    refuses_writes: bool = False,
    of_a_worker: Callable[[Request], bool] = lambda _: False,
) -> FastAPI:
    """`left_out`: routes that are not served, as a file configures the connectors; an error says so.

    `of_a_worker`: whether another worker of the group forwards a request, so that `refuses_writes` does not hold.
    """

    async def authenticate(request: Request) -> None:
        await _authenticate(authenticators, request)

    async def only_reads(request: Request) -> None:
        # Behind the credentials: nobody else need know what this worker allows.
        if refuses_writes and request.method not in _READING and request.scope["route"].path not in _CHANGE_NOTHING:
            # A user asked a worker that takes changes, and this one leads or runs what is changed.
            if of_a_worker(request):
                return
            raise ReadOnly

    application = FastAPI(
        title="mirror-connect",
        description="Kafka Connect's REST interface: connectors that mirror topics between Kafka clusters.",
        version=API_VERSION,
        dependencies=[Depends(whole_names), Depends(negotiate), Depends(authenticate), Depends(only_reads)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )

    @application.exception_handler(ConnectError)
    async def render(_: Request, error: ConnectError) -> Response:
        if isinstance(error, Unauthorized):
            return _refusal(error)
        return _error(error.status, str(error))

    @application.exception_handler(HTTPException)
    async def render_router_error(request: Request, error: HTTPException) -> Response:
        text = f"HTTP {error.status_code} {_reason(error.status_code)}"
        if error.status_code in (404, 405) and any(_is_at(each, request) for each in left_out):
            text = f"{text}. {BY_THE_FILE}"
        if error.status_code != 405:
            return _error(error.status_code, text)
        methods = _methods(application, request)
        allowed = ",".join(methods)
        if request.method == "OPTIONS":
            try:
                await authenticate(request)
            except ConnectError as refused:
                answer = await render(request, refused)
                if isinstance(refused, Unauthorized):
                    answer.headers["Content-Type"] = "text/plain"
                return answer
            try:
                accepted(",".join(request.headers.getlist("accept")))
            except BadMediaType:
                return bad_header(request)
            return Response(", ".join(methods), headers={"Allow": allowed, "Content-Type": "text/plain"})
        return _error(405, text, {"Allow": allowed})

    @application.exception_handler(BadMediaType)
    async def render_bad_header(request: Request, _: BadMediaType) -> Response:
        return bad_header(request)

    @application.exception_handler(ClientDisconnect)
    async def render_nothing(_: Request, __: ClientDisconnect) -> Response:
        # The client left in the middle of the body. That is not a bug, and nobody reads an answer.
        return Response(status_code=400)

    @application.exception_handler(Exception)
    async def render_bug(request: Request, error: Exception) -> Response:
        # The error's text may hold anything, so only the log gets it (the server writes it there), not the caller.
        return _error(500, f"{type(error).__name__} while answering {request.method}; the worker's log has the details")

    return application


async def _authenticate(authenticators: Sequence[Authenticator], request: Request) -> None:
    if is_signed(request):
        return
    for authenticator in authenticators:
        authenticator.check(request.headers.get("authorization"))


def _refusal(error: Unauthorized) -> Response:
    # Only the sentence, without a challenge, as in Connect: browsers must not show a login prompt.
    return Response(str(error), status_code=401, media_type="application/json")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error_code": status, "message": message}, status_code=status, headers=headers)


def _reason(status: int) -> str:
    return _REASONS.get(status) or HTTPStatus(status).phrase


def _is_at(route: BaseRoute, request: Request) -> bool:
    """Whether a route has the path of a request, whatever its method."""
    return route.matches(request.scope)[0] is not Match.NONE


def _methods(application: FastAPI, request: Request) -> list[str]:
    """The methods of all routes that match a path."""
    found: set[str] = set()
    for route in application.routes:
        if isinstance(route, Route) and _is_at(route, request):
            found |= route.methods or set()
    return [*(["HEAD"] if "GET" in found else []), *sorted(found, reverse=True), "OPTIONS"]
