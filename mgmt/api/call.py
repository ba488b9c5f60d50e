"""One request to the API: its user, the objects that its path names, and its body.

The checks are RabbitMQ's (`rabbit_web_dispatch_access_control`): an administrator may see
everything; a monitor may see all vhosts, connections and nodes; other users may see the vhosts that
they have access to, and their own connections.
"""

import pwd
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from aiohttp import web
from multidict import MultiMapping

from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import CONTROL, HTTP, Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.runtime.pending_in_task import in_task
from leveret.cluster.metadata.operations import RefusedByCoordinator
from leveret.mgmt.api import incoming
from leveret.mgmt.api.errors import ApiError, bad_request, not_authorised, not_found
from leveret.mgmt.api.json_bodies import parse
from leveret.mgmt.api.passed_requests import Part
from leveret.mgmt.api_names import LINES
from leveret.mgmt.http.json_limits import DIGITS_MAX, INTEGERS
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.mgmt.running_node import RunningNode

DEFAULT_EXCHANGE = "amq.default"
CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer: struct ucred of unix(7)."""
NO_VHOST_ACCESS = "User not authorised to access virtual host"
NO_OBJECT_ACCESS = "User not authorised to access object"


class Request(Protocol):
    """The parts of a request that a call needs. A client or another node has sent it."""

    @property
    def method(self) -> str:
        """GET and so on."""

    @property
    def path(self) -> str:
        """The path, decoded."""

    @property
    def query(self) -> MultiMapping[str]:
        """The parameters of the query."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""

    @property
    def match_info(self) -> Mapping[str, str]:
        """The variables of the path, decoded."""

    @property
    def remote(self) -> str | None:
        """The address of the client; None or empty for the control socket."""


class Passed(NamedTuple):
    """Data that another node sent along with a request that it passed on.

    may_open: the vhosts that the user may open. part: the requested part of a list or file.
    only_own: only this node's own objects are requested.
    """

    body: bytes
    requester: Requester
    may_open: dict[str, bool]
    part: Part | None
    only_own: bool


class Call:
    """A request that is being answered. identity: its user. limits: the limits of its body.

    route: its path in the table of routes. passed: set if another node has passed it on. left_out:
    the nodes that did not send their part in time. wanted_node: the node that has to answer, if the
    client names it.
    """

    def __init__(
        self,
        node: RunningNode,
        request: Request,
        identity: Identity,
        limits: incoming.BodyLimits,
        route: str = "",
        passed: Passed | None = None,
    ) -> None:
        self.node = node
        self.request = request
        self.identity = identity
        self.route = route
        self.passed = passed
        self.left_out: set[str] = set()
        self.wanted_node = ""
        self._limits = limits
        self._raw_body = None if passed is None else passed.body
        self._may_open: dict[str, bool] = {} if passed is None else passed.may_open

    @property
    def http_request(self) -> web.Request:
        """The request of a client of this node. Raises 501 if another node has passed it on."""
        if not isinstance(self.request, web.Request):
            raise ApiError(501, "not_implemented", "only the node itself answers this request")
        return self.request

    @property
    def facade(self) -> NodeFacade:
        """The node's broker as management reads it. Raises 503 while it is stopped."""
        if self.node.facade is None:
            raise ApiError(503, "service_unavailable", "the broker is stopped on this node")
        return self.node.facade

    @property
    def peer_host(self) -> str:
        """The address that the request comes from."""
        return self.request.remote or "127.0.0.1"

    @property
    def requester(self) -> Requester:
        """The user and its address, for the audit."""
        if self.passed is not None:
            return self.passed.requester
        if self.request.remote:
            return Requester(self.identity.name, self.request.remote, HTTP)
        return Requester(self.identity.name, _system_user(self.http_request), CONTROL)

    @property
    def wants_only_own(self) -> bool:
        """Whether another node requests only this node's own objects."""
        return self.passed is not None and self.passed.only_own

    @property
    def part(self) -> Part | None:
        """The part of a list or file that another node requests; None for all of it."""
        return None if self.passed is None else self.passed.part

    @property
    def takes_lines(self) -> bool:
        """Whether the client requests a whole list as lines of JSON, which are made as it reads."""
        is_get = self.request.method == "GET"
        return is_get and LINES in self.request.headers.get("Accept", "")

    # The path and the query

    def path(self, key: str) -> str:
        """A variable of the path, decoded."""
        return self.request.match_info[key]

    def query(self, key: str, default: str = "") -> str:
        """A parameter of the query; the default if it is missing."""
        return self.request.query.get(key, default)

    def number(self, key: str, default: int) -> int:
        """A parameter of the query that is a number. Raises 400."""
        text = self.query(key)
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            raise bad_request(f"{key} must be a number, and is '{text}'") from None
        if number not in INTEGERS:
            raise bad_request(f"{key} must be a number of at most {DIGITS_MAX:,} digits")
        return number

    def vhost(self, *, visible: bool = False) -> str:
        """The name of the vhost in the path. Raises 404; 401 if the user has no access to it.

        visible: being allowed to see the vhost is enough, as a monitor sees all of them.
        """
        vhost = self.path("vhost")
        if not self.facade.has_vhost(vhost):
            if self.request.method in ("PUT", "POST"):
                raise ApiError(404, "not_found", "vhost_not_found")
            raise not_found()
        if visible and self.identity.is_monitor:
            return vhost
        if not self.identity.is_administrator and not self.may_open(vhost):
            raise not_authorised(NO_VHOST_ACCESS)
        return vhost

    def may_open(self, vhost: str) -> bool:
        """Whether the user has access to a vhost. Remote backends were asked before, by `prepare`.

        A vhost that was added since then counts as one without access.
        """
        if vhost in self._may_open:
            return self._may_open[vhost]
        access = self.facade.access
        return access.may_use_vhost(self.identity, vhost, self.peer_host) is True

    async def may_open_any(self, vhost: str) -> bool:
        """`may_open` for a vhost that the path does not name: remote backends are asked."""
        if vhost in self._may_open:
            return self._may_open[vhost]
        decision = self.facade.access.may_use_vhost(self.identity, vhost, self.peer_host)
        return decision if isinstance(decision, bool) else await in_task(decision)

    async def prepare(self) -> None:
        """Ask remote backends whether the user has access to the vhost in the path.

        If the path names none, they are asked about all vhosts.
        """
        access = self.facade.access
        if access.decides_at_once or self.passed is not None:
            return
        named = self.request.match_info.get("vhost")
        for vhost in self.facade.vhost_names() if named is None else (named,):
            self._may_open[vhost] = await self.may_open_any(vhost)

    def visible_vhosts(self) -> list[str]:
        """The vhosts that the user may see: all of them for a monitor."""
        return self.facade.vhost_names() if self.identity.is_monitor else self.own_vhosts()

    def own_vhosts(self) -> list[str]:
        """The vhosts whose contents the user may list: those that it has access to."""
        return list(filter(self.may_open, self.facade.vhost_names()))

    def listed_vhosts(self) -> list[str]:
        """The vhost in the path, or without one all vhosts whose contents the user may list."""
        return [self.vhost()] if "vhost" in self.request.match_info else self.own_vhosts()

    def queue(self, vhost: str) -> str:
        """The name of the queue in the path. Raises 404 if there is none."""
        name = self.path("queue")
        if not self.facade.has_queue(vhost, name):
            raise not_found()
        return name

    def exchange_name(self, key: str = "exchange") -> str:
        """The name of the exchange in the path, where the default exchange is `amq.default`."""
        name = self.path(key)
        return "" if name == DEFAULT_EXCHANGE else name

    # Changes

    async def declare(self, *declarations: Declaration) -> None:
        """Submit declarations and wait until they are stored. Raises the errors of their checks."""
        try:
            await in_task(self.facade.submit(*declarations, requester=self.requester))
        except RefusedByCoordinator as error:
            raise bad_request(str(error)) from None

    async def note(
        self,
        action: str,
        kind: str,
        name: str,
        text: str,
        vhost: str = "",
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Write an act that is not a declaration to the audit log. Raises 500 if that fails.

        Called before the act, so that an act that cannot be logged is not done. The arguments are
        those of `AuditedChange`.
        """
        act = AuditedChange(action, kind, name, text, vhost, detail or {})
        try:
            await self.node.audit.note(self.requester, act)
        except OSError as error:
            reason = f"the audit log cannot be written, so nothing was done: {error}"
            raise ApiError(500, "internal_server_error", reason) from None

    # The user

    def require_administrator(self) -> None:
        """Raise 401 unless the user is an administrator."""
        if not self.identity.is_administrator:
            raise not_authorised("Not administrator user")

    def require_monitor(self) -> None:
        """Raise 401 unless the user is a monitor."""
        if not self.identity.is_monitor:
            raise not_authorised("Not monitor user")

    def require_policymaker(self, vhost: str | None = None) -> None:
        """Raise 401 unless the user may set policies; in this vhost, if one is given."""
        if self.identity.is_administrator:
            return
        if not self.identity.is_policymaker or (vhost is not None and not self.may_open(vhost)):
            raise not_authorised(NO_OBJECT_ACCESS)

    def require_owner(self, user: str) -> None:
        """Raise 401 unless the object is the user's own, or the user may see or delete all."""
        identity = self.identity
        is_delete = self.request.method == "DELETE"
        may_anyway = identity.is_administrator if is_delete else identity.is_monitor
        if not may_anyway and identity.name != user:
            raise not_authorised(NO_OBJECT_ACCESS)

    # The body

    async def raw_body(self) -> bytes:
        """The body in bytes. Raises 400 and 408."""
        if self._raw_body is None:
            read, give_way = incoming.read, self.node.give_way
            self._raw_body = await read(self.http_request, self._limits, give_way)
        return self._raw_body

    async def file(self) -> bytes:
        """The file in a form that a browser sent. Raises 400 and 408."""
        content_type = self.http_request.headers.get("Content-Type", "")
        return incoming.file_of(await self.raw_body(), content_type)

    async def form_before_login(self) -> dict[str, str]:
        """The fields of a form from a client without a login. Raises 400, 408 and 413."""
        return await incoming.read_form(self.http_request)

    async def body(self, *required: str, nullable: tuple[str, ...] = ()) -> dict[str, Any]:
        """The JSON object in the body. Raises 400 without one, or if a key is missing.

        nullable: keys that must be there and may be null.
        """
        raw = await self.raw_body()
        await self.node.give_way()
        is_empty = raw in (b"", b"null", b"undefined")
        content = {} if is_empty else await parse(raw, self.node.give_way)
        if isinstance(content, str):
            raise bad_request(
                "invalid payload: the request body JSON-decoded to a string. Is the input "
                "doubly-JSON-encoded?"
            )
        if not isinstance(content, dict):
            raise bad_request("not_json")
        missing = [key for key in nullable if key not in content]
        missing += [key for key in required if content.get(key) is None]
        if missing:
            raise bad_request("[" + ",".join(f"{{key_missing,{key}}}" for key in missing) + "]")
        return content


def _system_user(request: web.Request) -> str:
    """The user of the control socket, as the system knows it (SO_PEERCRED of socket(7))."""
    connected = None if request.transport is None else request.transport.get_extra_info("socket")
    if connected is None:
        return ""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    number = CREDENTIALS.unpack(credentials)[1]
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = str(number)
    return f"system user {name}"
