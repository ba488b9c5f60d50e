"""The connection of a client on a socket: what the connections of all protocols have in common.

    socket -> SocketInput -> the protocol's frames -> sessions -> SocketOutput -> socket

Parts of a connection refer to it weakly, or forget it when its socket is closed, so that no
reference cycle remains and a closed connection is freed immediately, not by the garbage collector.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.auth.identity import Identity
from leveret.broker.config import Listener
from leveret.broker.declarations.requester import Requester
from leveret.broker.events.connection_events import (
    connection_closed,
    connection_created,
    vhost_left,
)
from leveret.broker.net import connection_limits as limits
from leveret.broker.net.reading import Reading
from leveret.broker.net.socket_input import SocketInput
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.net.tls import session_facts
from leveret.broker.protocols.ending import RUNNING, Ending
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.queues.contract.link_status import SessionStatus
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.heartbeat import Heartbeat
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.sessions.status import ConnectionStatus
from leveret.broker.vhost.virtual_host import VirtualHost

PROBE_MS: Final = 1000
"""How long a client's machine may take to acknowledge what was sent, when another connection wants
its exclusive queue."""

logger = logging.getLogger("leveret.connection")


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketConnection(SessionConnection):
    """One client's connection: a protocol in the sense of asyncio.

    protocol: RabbitMQ's name, as management shows it. mechanism: that of the login. tuning: the
    limits that were agreed on. over: precedes the name of the protocol if a WebSocket stands in for
    the socket. tls: the TLS session, or None. input, output, ending: the parts.

    How a protocol uses it: its connection inherits from this class and from `asyncio.BaseProtocol`,
    and has a slot `__weakref__`. Its `__init__` makes the parts and calls `compose`. Its handshake
    sets `mechanism` and `client_properties`, calls `check_node_limits`, `check_limits`, `open` and
    `begin_heartbeats`; a new secret goes to `renew`. It overrides `release`, `send_heartbeat`,
    `force_close` to tell its client the reason, and what else differs. It gets the rest from here:
    the node's set of connections, addresses, totals, timers, alarms, status and the log.
    """

    __slots__ = (
        "_expiry_timer", "_heartbeat", "client_properties", "connected_at_s", "connections",
        "data_received", "ending", "input", "mechanism", "output", "over", "own_host",
        "own_port", "protocol", "reading", "tls", "tuning",
    )  # fmt: skip

    input: SocketInput
    output: SocketOutput
    ending: Ending
    data_received: Callable[[bytes], None]

    def __init__(
        self, services: Services, connections: set[ServedConnection], protocol: str
    ) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services)
        self.connections = connections
        self.protocol = protocol
        self.over = ""
        self.own_host = ""
        self.own_port = 0
        self.tls: Any = None
        self.mechanism = ""
        self.client_properties: Table = {}
        self.tuning = Tuning(0, 0, 0)
        self.connected_at_s = services.clock.wall_time_s()
        self.reading = Reading(services, weakref.proxy(self))
        self._expiry_timer: Timer | None = None
        self._heartbeat: Heartbeat | None = None

    def compose(self, received: SocketInput, output: SocketOutput, ending: Ending) -> None:
        """Use these parts. They refer to the connection weakly."""
        self.input = received
        self.output = output
        self.ending = ending
        self.data_received = received.receive
        output.stuck = ending.drop_stuck_peer

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        peer = transport.get_extra_info("peername") or ("?", 0)
        own = transport.get_extra_info("sockname") or ("?", 0)
        self.peer_host, self.peer_port = str(peer[0]), int(peer[1])
        self.own_host, self.own_port = str(own[0]), int(own[1])
        self.tls = transport.get_extra_info("ssl_object")
        self.over = transport.get_extra_info("over") or ""
        self.name = f"{peer[0]}:{peer[1]} -> {own[0]}:{own[1]}"
        # uvloop's transports implement asyncio's interface but are not subclasses of it.
        socket = cast(asyncio.Transport, transport)
        self.output.connect(socket)
        self.reading.connect(socket)
        self.ending.connect(socket, self.services.config.handshake_timeout_ms)
        self.connections.add(self)
        self.services.counts.connections_opened += 1

    def pause_writing(self) -> None:
        """The socket's write buffer is full."""
        self.output.pause()

    def resume_writing(self) -> None:
        """The socket's write buffer has drained."""
        self.output.resume()

    def eof_received(self) -> None:
        """The client closed its sending side: let asyncio close the socket."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed: release everything that the connection holds."""
        self.services.turns.watch.run(partial(self._closed, exc), self)

    def _closed(self, exc: Exception | None) -> None:
        was_orderly = self.ending.has_begun
        self.ending.disconnect()
        self.reading.disconnect()
        self.connections.discard(self)
        self.services.counts.add_connection(self.bytes_in, self.bytes_out, self.reads, self.writes)
        self.release()
        if self.is_logged_in:
            vhost_left(self)
        connection_closed(self)
        self.output.disconnect()
        self.disconnected()
        if not was_orderly:
            logger.warning("closing connection %s: the client closed its socket unexpectedly: %s",
                           self.name, exc or "end of file")  # fmt: skip

    def disconnected(self) -> None:
        """The socket is closed, and everything is released. A part may have more to forget."""

    # The handshake

    def hand_over(self, other: "SocketConnection", data: bytes) -> None:
        """Give the socket to a connection of another protocol, with the bytes that have come."""
        transport = self.ending.give_up_socket()
        self.connections.discard(self)
        self.services.counts.connections_opened -= 1
        self.reading.disconnect()
        self.output.disconnect()
        # Its input still handles the read that has brought the header, and refers to it weakly.
        asyncio.get_running_loop().call_soon(self.disconnected)
        transport.set_protocol(cast(asyncio.BaseProtocol, other))
        other.connection_made(transport)
        other.data_received(data)

    @property
    def is_tls(self) -> bool:
        """Whether it has TLS."""
        return self.tls is not None

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""
        return {} if self.tls is None else session_facts(self.tls)

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""
        limits.check_node(self.services, self.connections)

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""
        limits.check_connections(self.services, user, vhost)

    def begin_heartbeats(self, interval_s: int) -> None:
        """Send heartbeats, and expect the client's. interval_s: 0 for none."""
        if interval_s:
            self._heartbeat = Heartbeat(weakref.proxy(self), self.services.clock, interval_s)

    def open_vhost(self, user: Identity, vhost: VirtualHost, way: str) -> None:
        """The handshake is complete. way: that of its requests (declarations/requester.py)."""
        self.user, self.vhost = user, vhost
        self.requester = Requester(user.name, str(Listener(self.peer_host, self.peer_port)), way)
        self.ending.open()
        self._watch_expiry()
        connection_created(self)
        logger.info("%s: user '%s' opened vhost '%s'", self.name, user.name, vhost.name)

    def renew(self, user: Identity) -> None:
        """The user has another secret."""
        self.user = user
        # The cached publish targets were authorised with the old secret.
        self.targets.clear()
        self._watch_expiry()

    def _watch_expiry(self) -> None:
        """Close the connection when its credentials expire.

        It stays open for up to a second longer, as in RabbitMQ, so that a client that renews them
        in time need not be exact. Its operations are refused by then.
        """
        self._stop_expiry()
        ends_at_s = self.user.expires_at_s
        if ends_at_s is not None:
            clock = self.services.clock
            delay_ms = max(0.0, 1000.0 * (int(ends_at_s) - int(clock.wall_time_s())))
            self._expiry_timer = clock.call_later_ms(delay_ms, self.credential_expired)

    def credential_expired(self) -> None:
        """The user's credentials are no longer valid: close the connection."""
        self.force_close("credential expired")

    def _stop_expiry(self) -> None:
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None

    # Reading (net/reading.py) and heartbeats (runtime/heartbeat.py)

    @property
    def is_consuming(self) -> bool:
        """Whether it has consumers, or deliveries that it has not settled."""
        return any(session.consumers or session.unacked for session in self.channels.values())

    def send_blocked(self, reason: str) -> None:
        """Tell the client that an alarm blocks it. Nothing, unless the protocol can say so."""

    def send_unblocked(self) -> None:
        """Tell the client that it is no longer blocked, as above."""

    @property
    def is_reading(self) -> bool:
        """Whether the socket is being read."""
        return not self.reading.is_held_back

    def send_heartbeat(self) -> None:
        """Write a heartbeat. Nothing, in a protocol whose server sends none."""

    def peer_is_silent(self) -> None:
        """The client sent nothing for the heartbeat timeout."""
        self.ending.drop_silent_peer(self.tuning.heartbeat_s)

    def end_if_gone(self, user: str, answer: Answer[bool]) -> None:
        """End if this user's client is gone (services/absent_owners.py): send it something, and
        see a second later whether its machine has acknowledged it.
        """
        if not self.is_open or self.user.name != user:
            answer.give(False)
            return
        self.send_heartbeat()
        self.output.flush()
        self.services.clock.call_later_ms(PROBE_MS, partial(self._end_if_silent, answer))

    def _end_if_silent(self, answer: Answer[bool]) -> None:
        is_gone = not self.is_open or self.ending.is_peer_silent(PROBE_MS)
        if is_gone and self.is_open:
            self.ending.give_up(
                f"its machine acknowledges nothing for {PROBE_MS} ms, and another connection of "
                f"user '{self.user.name}' declares its exclusive queue"
            )
        answer.give(is_gone)

    # For the broker and management

    @property
    def state(self) -> str:
        """Its state, one of those in ending.py."""
        return self.ending.state

    @property
    def is_logged_in(self) -> bool:
        """Whether it has opened a vhost: user and vhost are known."""
        return hasattr(self, "vhost")

    @property
    def is_open(self) -> bool:
        """Whether a vhost is open, and the end of the connection has not begun."""
        return self.ending.state is RUNNING

    @property
    def generation(self) -> int | None:
        """The generation of its vhost; None before it has one."""
        return self.vhost.generation if self.is_logged_in else None

    @property
    def publishing_state(self) -> str:
        """`blocked`, `flow` or `running`: the state that RabbitMQ's management shows."""
        return self.reading.publishing_state

    @property
    def channels(self) -> Mapping[int, Session]:
        """The open sessions that clients and management see, by number. None, by default."""
        return {}

    @property
    def sessions(self) -> Iterable[Session]:
        """Its open sessions, also those that are not shown as channels."""
        return self.channels.values()

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""
        return self.input.bytes_in

    @property
    def reads(self) -> int:
        """Total reads of the socket."""
        return self.input.reads

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""
        return self.output.bytes_out

    @property
    def writes(self) -> int:
        """Total writes to the socket."""
        return self.output.writes

    def publishers(self) -> list[PublisherFigures]:
        """Its publishers, in a protocol without channels."""
        return []

    def subscriptions(self) -> list[SubscriptionFigures]:
        """Its subscriptions, in a protocol without channels."""
        return []

    def sessions_with_links(self) -> list[SessionStatus] | None:
        """The status of its sessions in AMQP 1.0; None in other protocols."""
        return None

    def status(self) -> ConnectionStatus:
        """Its status, once the handshake is complete."""
        tuning = self.tuning
        return ConnectionStatus(
            name=self.name,
            protocol=self.protocol,
            state=self.publishing_state,
            user=text(self.user.name),
            vhost=text(self.vhost.name),
            mechanism=self.mechanism,
            client_properties=table_to_json(self.client_properties),
            connected_at_s=self.connected_at_s,
            channels=len(self.channels),
            channel_max=tuning.channel_max,
            frame_bytes_max=tuning.frame_bytes_max,
            heartbeat_s=tuning.heartbeat_s,
            host=self.own_host,
            port=self.own_port,
            peer_host=self.peer_host,
            peer_port=self.peer_port,
            reads=self.reads,
            writes=self.writes,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            tls=self.tls_facts(),
        )

    def alarms_changed(self) -> None:
        """An alarm was raised or cleared."""
        self.reading.alarms_changed()

    def congestion_changed(self) -> None:
        """The store became congested, or is no longer congested."""
        self.reading.congestion_changed()

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """End each session that holds a delivery unsettled for longer than its timeout."""

    # Closing

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        self.drop()

    def drop(self) -> None:
        """Close the socket after all written output is sent."""
        self.ending.drop()

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
        self.ending.abort()

    def release(self) -> None:
        """Release everything that the connection holds; may be called several times.

        A protocol drops its unhandled input, then calls this.
        """
        self.reading.stop_blocking()
        self._stop_expiry()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        self.release_sessions()
        self.services.registry.exclusive_owners.remove(self)
        if self.exclusive_queues:
            what = f"deleting the exclusive queues of {self!r}"
            self.vhost.delete_queues(self.exclusive_queues.values(), what)
        self.targets.clear()

    def release_sessions(self) -> None:
        """Release the sessions; may be called several times."""
