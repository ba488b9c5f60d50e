"""One request to the API: who makes it, what it is about, and what is in its body.

The checks are RabbitMQ's (`rabbit_web_dispatch_access_control`): an administrator may see
everything; a monitor all vhosts, connections and nodes; others the vhosts that they may open, and
their own connections.
"""

from typing import Any

from aiohttp import web

from broker.auth.access_control import Undecided
from broker.auth.identity import Identity
from broker.binding import Exchange
from broker.queues.actor import Queue
from broker.server import Broker
from broker.vhost import VirtualHost
from mgmt.api import incoming
from mgmt.api.errors import ApiError, bad_request, not_authorised, not_found
from mgmt.node import Node

DEFAULT_EXCHANGE = "amq.default"
NO_VHOST_ACCESS = "User not authorised to access virtual host"
NO_OBJECT_ACCESS = "User not authorised to access object"


class Call:
    """A request that is being answered. identity: who makes it."""

    def __init__(self, node: Node, request: web.Request, identity: Identity) -> None:
        self.node = node
        self.request = request
        self.identity = identity

    @property
    def broker(self) -> Broker:
        """The node's broker. Raises 503 while it is stopped (`stop_app`)."""
        if self.node.broker is None:
            raise ApiError(503, "service_unavailable", "the broker is stopped on this node")
        return self.node.broker

    @property
    def peer_host(self) -> str:
        """Where the request comes from."""
        return self.request.remote or "127.0.0.1"

    # What it names

    def path(self, key: str) -> str:
        """A part of the path, decoded."""
        return self.request.match_info[key]

    def query(self, key: str, default: str = "") -> str:
        """A parameter of the query."""
        return self.request.query.get(key, default)

    def number(self, key: str, default: int) -> int:
        """A parameter that is a number. Raises 400."""
        text = self.query(key)
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise bad_request(f"{key} must be a number, and is '{text}'") from None

    def vhost(self, *, visible: bool = False) -> VirtualHost:
        """The vhost in the path. Raises 404, or 401 if the user may not open it.

        visible: that it may see it is enough, as a monitor sees all.
        """
        vhost = self.broker.services.vhosts.get(self.path("vhost"))
        if vhost is None:
            if self.request.method in ("PUT", "POST"):
                raise ApiError(404, "not_found", "vhost_not_found")
            raise not_found()
        if visible and self.identity.is_monitor:
            return vhost
        if not self.identity.is_administrator and not self.may_open(vhost.name):
            raise not_authorised(NO_VHOST_ACCESS)
        return vhost

    def may_open(self, vhost: str) -> bool:
        """Whether the user may open a vhost; `prepare` has asked backends over the network."""
        access = self.broker.services.access
        return access.may_use_vhost(self.identity, vhost, self.peer_host)

    async def prepare(self) -> None:
        """Have the answers ready to what vhosts the user may open."""
        access = self.broker.services.access
        if access.decides_at_once or self.identity.is_monitor:
            return
        for name in tuple(self.broker.services.vhosts):
            try:
                self.may_open(name)
            except Undecided as undecided:
                await undecided.settle()

    def visible_vhosts(self) -> list[VirtualHost]:
        """Those that the user may see: all, for a monitor."""
        vhosts = self.broker.services.vhosts.values()
        if self.identity.is_monitor:
            return list(vhosts)
        return self.own_vhosts()

    def own_vhosts(self) -> list[VirtualHost]:
        """Those whose contents the user may list: the ones that it may open."""
        vhosts = self.broker.services.vhosts.values()
        return [vhost for vhost in vhosts if self.may_open(vhost.name)]

    def listed_vhosts(self) -> list[VirtualHost]:
        """The one in the path, if there is one, or all whose contents the user may list."""
        return [self.vhost()] if "vhost" in self.request.match_info else self.own_vhosts()

    def queue(self, vhost: VirtualHost) -> Queue:
        """The queue in the path. Raises 404."""
        queue = vhost.queues.get(self.path("queue"))
        if queue is None:
            raise not_found()
        return queue

    def exchange_name(self, key: str = "exchange") -> str:
        """The exchange in the path; the default exchange has a name there."""
        name = self.path(key)
        return "" if name == DEFAULT_EXCHANGE else name

    def exchange(self, vhost: VirtualHost, key: str = "exchange") -> Exchange:
        """The exchange in the path. Raises 404."""
        exchange = vhost.exchanges.get(self.exchange_name(key))
        if exchange is None:
            raise not_found()
        return exchange

    # Who makes it

    def require_administrator(self) -> None:
        """Raise 401 unless the user is one."""
        if not self.identity.is_administrator:
            raise not_authorised("Not administrator user")

    def require_monitor(self) -> None:
        """Raise 401 unless the user may see the node."""
        if not self.identity.is_monitor:
            raise not_authorised("Not monitor user")

    def require_policymaker(self, vhost: str | None = None) -> None:
        """Raise 401 unless the user may set policies, in the vhost if there is one."""
        if self.identity.is_administrator:
            return
        if not self.identity.is_policymaker or (vhost is not None and not self.may_open(vhost)):
            raise not_authorised(NO_OBJECT_ACCESS)

    def require_owner(self, user: str) -> None:
        """Raise 401 unless it is the user's own, or the user may see (or end) everybody's."""
        identity = self.identity
        is_delete = self.request.method == "DELETE"
        may_anyway = identity.is_administrator if is_delete else identity.is_monitor
        if not may_anyway and identity.name != user:
            raise not_authorised(NO_OBJECT_ACCESS)

    # What is in it

    async def raw_body(self) -> bytes:
        """The body as it is. Raises 408 and 413."""
        return await incoming.read(self.request, self.node.config.management_body_timeout_ms)

    async def form(self) -> incoming.Form:
        """The form in the body. Raises 400, 408 and 413."""
        return await incoming.read_form(self.request, self.node.config.management_body_timeout_ms)

    async def body(self, *required: str) -> dict[str, Any]:
        """The JSON object in the body. Raises 400 if it is none, or lacks a key."""
        raw = await self.raw_body()
        content = {} if raw in (b"", b"null", b"undefined") else incoming.parse(raw)
        if isinstance(content, str):
            raise bad_request(
                "invalid payload: the request body JSON-decoded to a string. Is the input "
                "doubly-JSON-encoded?"
            )
        if not isinstance(content, dict):
            raise bad_request("not_json")
        missing = [key for key in required if content.get(key) is None]
        if missing:
            raise bad_request("[" + ",".join(f"{{key_missing,{key}}}" for key in missing) + "]")
        return content
