"""The HTTP server of management: logins, dispatch to routes, answers and their headers.

One application serves the ports of the HTTP API and its pages. Another one serves the control
socket, with the same routes and those that control the node; every user of the socket is an
administrator. Requests run in the broker's event loop; those about many objects work in slices
(listing.py).
"""

import logging
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import hdrs, web

from leveret.broker.auth.identity import ADMINISTRATOR, Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.config import Listener
from leveret.broker.runtime.private_files import naming
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.encoding import batched, encode
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.headers import NODES_LEFT_OUT, ConfiguredHeaders
from leveret.mgmt.api.incoming import limits_of
from leveret.mgmt.api.login import ANONYMOUS, credentials_of, log_in
from leveret.mgmt.api.origins import refuse_foreign_form
from leveret.mgmt.api.pages import add_pages
from leveret.mgmt.api.performing import perform
from leveret.mgmt.api.resources import all_routes
from leveret.mgmt.api.routes import (
    ApiRoute,
    Created,
    JsonWithEtag,
    Lines,
    NoContent,
    StatusAnswer,
    has_etag,
)
from leveret.mgmt.api_names import CONTROL_SOCKET, LINES, NODE_HEADER
from leveret.mgmt.http.listening import listen
from leveret.mgmt.running_node import RunningNode
from leveret.mgmt.views.plugins import is_running

CONTROL_BODY_BYTES_MAX = 200_000_000
SOCKET_PATH_BYTES_MAX = 107
VARIABLE = re.compile(r"\{(\w+)\}")
CONTROL_USER = "leveretctl"
WRITTEN_AT_ONCE = 256 * 1024
LINES_AT_ONCE = 32 * 1024

logger = logging.getLogger("leveret.management")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONTROLLER = Identity(CONTROL_USER, (ADMINISTRATOR,), authorization=Unrestricted())


def _bind_in(directory: Path, name: str) -> socket.socket:
    """A Unix socket in a directory, whose path may be longer than a socket's (unix(7)).

    Raises OSError, which names the socket.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = directory / name
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        with naming(path):
            bound.bind(str(path))
        return bound
    opened = os.open(directory, os.O_PATH)
    try:
        with naming(path):
            bound.bind(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)
    return bound


class ManagementServer:
    """The HTTP API of a node."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._runners: list[web.AppRunner] = []
        self._control_path: Path | None = None
        self._headers = ConfiguredHeaders(node.config)
        self._limits = limits_of(node.config.management)
        self._control_limits = self._limits._replace(bytes_max=CONTROL_BODY_BYTES_MAX)

    async def listen(self, listener: Listener, context: ssl.SSLContext | None = None) -> Listener:
        """Serve the API and the pages. Returns the address, with the port that the system chose."""
        timeout_s = self._node.config.management.request_timeout_ms / 1000
        runner = web.AppRunner(self._application(is_control=False), access_log=None)
        self._runners.append(runner)
        return await listen(runner, listener, context, timeout_s)

    async def listen_for_control(self, directory: Path) -> None:
        """Serve the control socket."""
        path = directory / CONTROL_SOCKET
        path.unlink(missing_ok=True)
        application = self._application(is_control=True)
        runner = web.AppRunner(application, access_log=None, auto_decompress=False)
        await runner.setup()
        self._runners.append(runner)
        # The mode is set before a client can connect.
        old_mask = os.umask(0o177)
        try:
            listening = _bind_in(directory, path.name)
        finally:
            os.umask(old_mask)
        self._control_path = path
        await web.SockSite(runner, listening).start()

    async def close(self) -> None:
        """Stop serving."""
        if self._control_path is not None:
            self._remove(self._control_path)
        for runner in self._runners:
            await runner.cleanup()

    @staticmethod
    def _remove(path: Path) -> None:
        """Remove the control socket. Without that, the next start does."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s is not removed: %s", path, error.strerror)

    # Routes

    def _application(self, *, is_control: bool) -> web.Application:
        application = web.Application()
        prefix = "" if is_control else self._node.config.management.path_prefix.rstrip("/")
        routes = [one for one in all_routes() if is_control or not one.control_only]
        for path, group in groupby(sorted(routes, key=_specific_first), lambda one: one.path):
            self._add_path(application, f"{prefix}/api{path}", list(group), is_control=is_control)
        if not is_control:
            add_pages(application, prefix, self._node)
            application.on_response_prepare.append(self._headers.add_to_page)
        application.router.add_route("*", "/{path:.*}", self._answer_nothing)
        return application

    def _add_path(
        self, application: web.Application, path: str, routes: list[ApiRoute], *, is_control: bool
    ) -> None:
        """Add a path with all its methods, with and without a slash at its end."""
        # The variables of aiohttp cannot match braces, which names may have.
        path = VARIABLE.sub(r"{\1:[^/]+}", path)
        methods = {one.method for one in routes} | {"OPTIONS"}
        allow = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
        for place in (path, f"{path}/"):
            for one in routes:
                handler = self._handler(one, is_control=is_control)
                application.router.add_route(one.method, place, handler)
                if one.method == "GET":
                    application.router.add_route("HEAD", place, handler)
            application.router.add_route("*", place, self._other_method(allow))

    def _other_method(self, allow: str) -> Handler:
        """The handler for methods that a path does not have: its answer lists the existing ones."""

        async def handle(request: web.Request) -> web.StreamResponse:
            status = 200 if request.method == "OPTIONS" else 405
            response = web.Response(status=status, headers={"Allow": allow})
            self._headers.add(request, response)
            return response

        return handle

    async def _answer_nothing(self, request: web.Request) -> web.StreamResponse:
        return self._error(request, ApiError(404, "Object Not Found", "Not Found"))

    def _handler(self, one: ApiRoute, *, is_control: bool) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await self._answer(one, request, is_control=is_control)
            except ApiError as error:
                return self._error(request, error)
            except web.HTTPException:
                raise
            except ConnectionError:
                # The client is gone: this response is not sent, and nothing is logged.
                return self._error(request, ApiError(400, "bad_request", "connection closed"))
            except Exception as error:
                logger.exception("%s %s failed", request.method, request.path)
                return self._error(request, ApiError(500, "internal_server_error", str(error)))

        return handle

    async def _answer(
        self, one: ApiRoute, request: web.Request, *, is_control: bool
    ) -> web.StreamResponse:
        if one.plugin and not is_running(one.plugin, self._node):
            raise ApiError(404, "Object Not Found", "Not Found")
        if not (one.works_stopped or one.answers_at_once):
            # Before the login, since users may have changed while it waited.
            await self._node.place_known()
        identity = CONTROLLER if is_control else await self._identity(one, request)
        limits = self._control_limits if is_control else self._limits
        call = Call(self._node, request, identity, limits, one.path)
        if is_control:
            call.wanted_node = request.headers.get(NODE_HEADER, "")
        if not (one.works_stopped or one.is_open):
            await call.prepare()
        request[NODES_LEFT_OUT] = call.left_out
        return await self._response(request, await perform(one, call))

    async def _identity(self, one: ApiRoute, request: web.Request) -> Identity:
        """The user. Raises 401, 403 for a page of another site, and 406 unless JSON is accepted."""
        if not _takes_json(request):
            raise web.HTTPNotAcceptable
        refuse_foreign_form(request, self._node.config)
        if one.is_open:
            return ANONYMOUS
        name, password = credentials_of(request, from_query=one.is_linked)
        return await log_in(self._node, request, name, password)

    # Answers

    async def _response(self, request: web.Request, answer: Any) -> web.StreamResponse:
        if isinstance(answer, web.StreamResponse):
            response: web.StreamResponse = answer
        elif isinstance(answer, NoContent):
            response = web.Response(status=204)
        elif isinstance(answer, Created):
            response = web.Response(status=201 if answer.is_new else 204)
            if answer.location:
                response.headers[hdrs.LOCATION] = answer.location
        elif isinstance(answer, StatusAnswer):
            response = _json(answer.status, msgspec.json.encode(answer.content))
        elif isinstance(answer, Lines):
            return await self._send_lines(request, answer)
        elif isinstance(answer, JsonWithEtag):
            if not has_etag(request, answer.etag):
                return await self._send(request, answer.parts, answer.etag)
            response = web.Response(status=304, headers={hdrs.ETAG: f'"{answer.etag}"'})
        else:
            return await self._send(request, await encode(answer, self._node.give_way))
        if not response.prepared:
            if response.status in (200, 503):
                response.headers.setdefault(hdrs.CACHE_CONTROL, "no-cache")
            self._headers.add(request, response)
        return response

    async def _send(
        self, request: web.Request, parts: list[bytes], etag: str = ""
    ) -> web.StreamResponse:
        """200 with JSON; a long answer is written piece by piece, as fast as the client reads."""
        size = sum(map(len, parts))
        is_short = size <= WRITTEN_AT_ONCE or request.method == "HEAD"
        response: web.StreamResponse
        response = _json(200, b"".join(parts)) if is_short else web.StreamResponse()
        response.headers[hdrs.CACHE_CONTROL] = "no-cache"
        if etag:
            response.headers[hdrs.ETAG] = f'"{etag}"'
        self._headers.add(request, response)
        if is_short:
            return response
        response.content_type, response.content_length = "application/json", size
        await response.prepare(request)
        for piece in batched(parts, WRITTEN_AT_ONCE):
            await response.write(piece)
            await self._node.give_way()
        return response

    async def _send_lines(self, request: web.Request, answer: Lines) -> web.StreamResponse:
        """200 with a line for each row, and finally one with the nodes that are left out.

        A client that does not get that line knows that rows are missing.
        """
        response = web.StreamResponse()
        response.content_type = LINES
        response.headers[hdrs.CACHE_CONTROL] = "no-cache"
        self._headers.add(request, response)
        await response.prepare(request)
        waiting = bytearray()
        try:
            async for row in answer.rows:
                waiting += bytes(row) + b"\n"
                if len(waiting) >= LINES_AT_ONCE:
                    await response.write(bytes(waiting))
                    waiting.clear()
        except BaseException:
            # Nothing else can be sent: the client sees an answer without an end.
            if request.transport is not None:
                request.transport.abort()
            raise
        waiting += msgspec.json.encode(sorted(request.get(NODES_LEFT_OUT, ()))) + b"\n"
        await response.write(bytes(waiting))
        return response

    def _error(self, request: web.Request, error: ApiError) -> web.StreamResponse:
        content = {"error": error.error, "reason": error.reason, **error.details}
        response = _json(error.status, msgspec.json.encode(content))
        response.headers.update(error.headers)
        if error.closes:
            response.force_close()
        self._headers.add(request, response)
        return response


def _takes_json(request: web.Request) -> bool:
    accepted = request.headers.get(hdrs.ACCEPT, "*/*")
    return any(one in accepted for one in ("*/*", "application/*", "application/json", LINES))


def _specific_first(one: ApiRoute) -> tuple[tuple[bool, str], ...]:
    """A sort key: paths with a fixed word come before those with a variable in its place."""
    return tuple((part.startswith("{"), part) for part in one.path.split("/"))


def _json(status: int, content: bytes) -> web.Response:
    return web.Response(status=status, body=content, content_type="application/json")
