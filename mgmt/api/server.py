"""The HTTP server of management: who is let in, what is answered, and with which headers.

One application serves the ports of the HTTP API and its pages; another one, with the same routes
and those that steer the node, the control socket, where whoever can open it is an administrator.
Requests run in the broker's event loop; whatever touches many objects gives way (listing.py).
"""

import base64
import binascii
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import hdrs, web

from broker.auth.access_control import Undecided
from broker.auth.identity import ADMINISTRATOR, Identity, LoginAttempt
from broker.config import Listener
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, not_authorised
from mgmt.api.headers import Headers
from mgmt.api.listing import pick_columns
from mgmt.api.resources import RESOURCES
from mgmt.api.routes import ROUTES, Created, NoContent, Route, Status
from mgmt.node import Node

BODY_BYTES_MAX = 20 * 1024 * 1024 * 4
REALM = 'Basic realm="RabbitMQ Management"'
CONTROL_SOCKET = "control.socket"
CONTROL_USER = "leveretctl"
UI_DIRECTORY = Path(__file__).parent.parent / "ui"

logger = logging.getLogger("leveret.management")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Everything:
    """The permissions of whoever holds the control socket."""

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Yes."""
        return True

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Yes."""
        return True

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Yes."""
        return True


CONTROLLER = Identity(CONTROL_USER, (ADMINISTRATOR,), authorization=Everything())


class ManagementServer:
    """The HTTP API of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runners: list[web.AppRunner] = []
        self._headers = Headers(node.config)

    async def listen(self, listener: Listener, context: ssl.SSLContext | None = None) -> Listener:
        """Serve the API and the pages; where, with the port that the system chose."""
        runner = web.AppRunner(self._application(is_control=False), access_log=None)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(
            runner, listener.host, listener.port, ssl_context=context, reuse_address=True
        )
        await site.start()
        address = runner.addresses[0]
        return Listener(address[0], address[1])

    async def listen_for_control(self, directory: Path) -> None:
        """Serve the control socket."""
        path = directory / CONTROL_SOCKET
        path.unlink(missing_ok=True)
        runner = web.AppRunner(self._application(is_control=True), access_log=None)
        await runner.setup()
        self._runners.append(runner)
        # The mode is set before anybody can connect.
        old_mask = os.umask(0o177)
        try:
            await web.UnixSite(runner, str(path)).start()
        finally:
            os.umask(old_mask)

    async def close(self) -> None:
        """Serve no more."""
        for runner in self._runners:
            await runner.cleanup()

    # Routes

    def _application(self, *, is_control: bool) -> web.Application:
        assert RESOURCES
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        prefix = "" if is_control else self._node.config.management_path_prefix.rstrip("/")
        for one in sorted(ROUTES, key=_specific_first):
            if is_control or not one.control_only:
                handler = self._handler(one, is_control=is_control)
                application.router.add_route(one.method, f"{prefix}/api{one.path}", handler)
                if one.method == "GET":
                    application.router.add_route("HEAD", f"{prefix}/api{one.path}", handler)
        if not is_control:
            self._add_pages(application, prefix)
        application.router.add_route("*", "/{path:.*}", self._answer_other)
        return application

    def _add_pages(self, application: web.Application, prefix: str) -> None:
        async def index(request: web.Request) -> web.StreamResponse:
            response = web.FileResponse(UI_DIRECTORY / "index.html")
            self._headers.add(request, response)
            return response

        application.router.add_get(f"{prefix}/", index)
        if prefix:
            application.router.add_get(prefix, self._redirect_to_pages)
        if UI_DIRECTORY.is_dir():
            application.router.add_static(f"{prefix}/ui", UI_DIRECTORY)
        application.on_response_prepare.append(self._headers.add_to_page)

    async def _redirect_to_pages(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{request.path}/")

    async def _answer_other(self, request: web.Request) -> web.StreamResponse:
        """What no route answers: the methods that others take at this path, or nothing at all."""
        allowed = sorted(
            {
                one.method
                for one in request.app.router.routes()
                if one.resource is not None
                and one.method != "*"
                and one.resource.get_info().get("path") != "/{path}"
                and (await one.resource.resolve(_as(request, one.method)))[0] is not None
            }
            if request.path.find("/api/") >= 0
            else ()
        )
        if not allowed:
            return self._error(request, ApiError(404, "Object Not Found", "Not Found"))
        allow = ", ".join(["HEAD", *(name for name in allowed if name != "HEAD"), "OPTIONS"])
        if request.method == "OPTIONS":
            response = web.Response(headers={"Allow": allow})
        else:
            response = web.Response(status=405, headers={"Allow": allow})
        self._headers.add(request, response)
        return response

    def _handler(self, one: Route, *, is_control: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if is_control:
                    identity = CONTROLLER
                else:
                    identity = await self._log_in(request)
                call = Call(self._node, request, identity)
                if not one.works_stopped:
                    await call.prepare()
                answer = await self._answered(one, call)
            except ApiError as error:
                return self._error(request, error)
            except web.HTTPException:
                raise
            except ConnectionError:
                raise
            except Exception as error:
                logger.exception("%s %s failed", request.method, request.path)
                return self._error(request, ApiError(500, "internal_server_error", str(error)))
            return self._response(request, answer)

        return handle

    async def _answered(self, one: Route, call: Call) -> Any:
        """What the route's function says; asked again if a backend had to be asked first."""
        while True:
            try:
                return _with_columns(call, await one.handler(call))
            except Undecided as undecided:
                settled = undecided.settle()
            await settled

    # Logging in

    async def _log_in(self, request: web.Request) -> Identity:
        broker = self._node.broker
        if broker is None:
            raise ApiError(503, "service_unavailable", "the broker is stopped on this node")
        name, password = _credentials(request)
        host = request.remote or ""
        attempt = LoginAttempt(name, password, host, f"HTTP from {host}")
        identity = await broker.services.access.log_in(attempt)
        if identity is None:
            raise ApiError(401, "not_authorized", "Login failed", {"WWW-Authenticate": REALM})
        if not identity.may_use_management:
            raise not_authorised("Not management user")
        return identity

    # Answers

    def _response(self, request: web.Request, answer: Any) -> web.StreamResponse:
        if isinstance(answer, web.StreamResponse):
            response: web.StreamResponse = answer
        elif isinstance(answer, NoContent):
            response = web.Response(status=204)
        elif isinstance(answer, Created):
            response = web.Response(status=201 if answer.is_new else 204)
            if answer.location:
                response.headers[hdrs.LOCATION] = answer.location
        elif isinstance(answer, Status):
            response = _json(answer.status, answer.content)
        else:
            response = _json(200, answer)
            response.headers[hdrs.CACHE_CONTROL] = "no-cache"
        if not response.prepared:
            self._headers.add(request, response)
        return response

    def _error(self, request: web.Request, error: ApiError) -> web.StreamResponse:
        response = _json(error.status, {"error": error.error, "reason": error.reason})
        response.headers.update(error.headers)
        self._headers.add(request, response)
        return response


def _with_columns(call: Call, answer: Any) -> Any:
    """Of a single object, only the columns that are asked for; lists have seen to it."""
    columns = call.query("columns")
    if columns and isinstance(answer, dict) and "items" not in answer:
        return pick_columns(answer, columns)
    return answer


def _as(request: web.Request, method: str) -> web.Request:
    return request.clone(method=method)


def _specific_first(one: Route) -> tuple[tuple[bool, str], ...]:
    """Paths with a word where others have a variable go first."""
    return tuple((part.startswith("{"), part) for part in one.path.split("/"))


def _credentials(request: web.Request) -> tuple[str, str]:
    """Name and password; a bearer token is a password of nobody's."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer" and value:
        return "", value.strip()
    if kind.lower() == "basic":
        try:
            name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            colon = ""
        if colon:
            return name, password
    raise ApiError(401, "not_authorized", "Not_Authorized", {"WWW-Authenticate": REALM})


def _json(status: int, content: Any) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(content), content_type="application/json"
    )
