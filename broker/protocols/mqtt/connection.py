"""A connection of MQTT: an asyncio protocol, composed of parts.

    socket -> MqttInput -> Login, Publisher, SessionQueues -> MqttOutput -> socket

The connection itself keeps the client's identifier and will, and ends the session; the rest is
common to all protocols (protocols/socket_connection.py). The parts refer to it weakly, or are
forgotten when it ends. A client that neither publishes nor subscribes has no session.
"""

import asyncio
import logging
import secrets
import weakref
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from msgspec import structs

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import text
from leveret.broker.config.mqtt_settings import EXACTLY_ONCE, UINT16_MAX
from leveret.broker.protocols.ending import Ending
from leveret.broker.protocols.mqtt import codes, packets
from leveret.broker.protocols.mqtt.exactly_once_session import ExactlyOnceSession
from leveret.broker.protocols.mqtt.incoming import MqttInput
from leveret.broker.protocols.mqtt.keep_alives import KeepAlives, allowed_ms
from leveret.broker.protocols.mqtt.login import (
    PROTOCOL,
    ConnectRefused,
    LoggedIn,
    check_certificate,
    check_connect,
    log_in,
)
from leveret.broker.protocols.mqtt.lost_clients import LostClients
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.names import session_queues, will_queue
from leveret.broker.protocols.mqtt.output import MqttOutput
from leveret.broker.protocols.mqtt.packets import Connect, Disconnect, Subscribe, Unsubscribe, Will
from leveret.broker.protocols.mqtt.properties import (
    ASSIGNED_CLIENT_IDENTIFIER,
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    NONE,
    RECEIVE_MAXIMUM,
    SERVER_REFERENCE,
    SESSION_EXPIRY_INTERVAL,
    SHARED_SUBSCRIPTION_AVAILABLE,
    TOPIC_ALIAS_MAXIMUM,
    Properties,
)
from leveret.broker.protocols.mqtt.redirection import server_reference
from leveret.broker.protocols.mqtt.retained import send_retained
from leveret.broker.protocols.mqtt.subscribing import (
    PERMANENT_S,
    SessionQueues,
    session_queue_arguments,
)
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.protocols.mqtt.wills import Wills, delay_s
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.tuning import Tuning
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import DRAINED, ServedConnection
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import ConnectionStatus
from leveret.storage.metadata.metadata import MetadataError

WAY: Final = "MQTT"
"""The way of its requests, for the audit."""
RECORDS_STAY_S: Final = 60
"""How much longer the records of QoS 2 are kept than the other queues of a session."""
CLOSE_TIMEOUT_MS: Final = 10_000
"""How long a client may take to close its socket."""

logger = logging.getLogger("leveret.connection")


class MqttNode(NamedTuple):
    """The objects that the MQTT connections of a node share."""

    keep_alives: KeepAlives
    topics: Topics
    wills: Wills
    lost: LostClients


class MqttConnection(SocketConnection, asyncio.BaseProtocol):
    """One client's connection. client_id: its identifier, once it is connected.

    keep_alive_ms: the longest time between two reads; 0 for any.
    """

    __slots__ = (
        "__weakref__", "_expiry_s", "_level", "_node", "_packet_bytes_max", "_queues",
        "_receive_max", "_session", "_will", "client_id", "keep_alive_ms",
    )  # fmt: skip

    input: MqttInput

    def __init__(
        self, services: Services, connections: set[ServedConnection], node: MqttNode
    ) -> None:
        """connections: those of the whole node, with this one while its socket is open."""
        super().__init__(services, connections, PROTOCOL)
        self._node = node
        self._level = 0
        self._session: MqttSession | None = None
        self._queues: SessionQueues | None = None
        self._will: Will | None = None
        self._expiry_s = 0
        self._receive_max = UINT16_MAX
        self._packet_bytes_max = 0
        self.client_id = ""
        self.keep_alive_ms = 0
        itself = weakref.proxy(self)
        settings = services.config.mqtt
        received = MqttInput(itself, settings.max_packet_size_unauthenticated)
        output = MqttOutput(services.turns, services.clock, received)
        self.reading.unblocked = received.go_on
        self.compose(received, output, Ending(itself, services.clock, CLOSE_TIMEOUT_MS))

    def __repr__(self) -> str:
        return f"MQTT connection {self.name}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        super().connection_made(transport)
        self.ending.call_later(self.services.config.mqtt.login_timeout_ms, self._login_too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed. When very many clients are lost at once, the end takes turns."""
        self._node.lost.add(partial(super().connection_lost, exc))

    def _login_too_long(self) -> None:
        logger.error("closing connection %s: the client has sent no CONNECT in time", self.name)
        self.drop()

    # Parts

    @property
    def session(self) -> MqttSession:
        """The session of the client; made when it is needed first."""
        session = self._session
        if session is None:
            session = self._session = self._make_session(1)
            if self.services.config.mqtt.qos2 == EXACTLY_ONCE:
                self._add_exactly_once(session)
            self.output.caught_up = session.caught_up
        return session

    def _make_session(self, number: int) -> MqttSession:
        session = MqttSession(self, number, self.output, self._node.topics)
        session.describe(self.client_id, self._level)
        session.packet_bytes_max = self._packet_bytes_max
        session.receive_max = self._receive_max
        return session

    def _add_exactly_once(self, session: MqttSession) -> None:
        arguments: Table | None = None
        if self._expiry_s:
            # The records expire after their messages.
            expiry_s = min(self._expiry_s + RECORDS_STAY_S, PERMANENT_S)
            arguments = session_queue_arguments(expiry_s, 1, self.services.config.mqtt)
        part = ExactlyOnceSession(session, self.client_id, arguments)
        session.add_exactly_once(part, part.queue_name)

    @property
    def queues(self) -> SessionQueues:
        """The queues of its session."""
        if self._queues is None:
            prefetch_count = min(self.services.config.mqtt.prefetch, self._receive_max)
            self._queues = SessionQueues(self.session, self._expiry_s, prefetch_count)
        return self._queues

    def pause_writing(self) -> None:
        """The socket's write buffer is full."""
        super().pause_writing()
        if self._queues is not None:
            self._queues.limit_qos_0()

    def resume_writing(self) -> None:
        """The socket's write buffer has drained."""
        super().resume_writing()
        if self._queues is not None:
            self._queues.lift_limit_of_qos_0()

    def handle_input(self) -> None:
        """Handle the packets that have come."""
        self.input.handle()

    def send(self, packet: bytes) -> None:
        """Send a packet."""
        self.output.write(packet)

    # CONNECT

    async def connect(self, packet: Connect) -> None:
        """Handle CONNECT: log the client in, and take its session up."""
        self.protocol, self._level = self.over + packet.protocol, packet.level
        self.mechanism = "none"
        assigned = "" if packet.client_id else secrets.token_urlsafe(16)
        try:
            check_connect(packet, self.services.config.mqtt)
            check_certificate(self, packet.client_id)
            logged_in = await log_in(self, packet)
        except ConnectRefused as refused:
            self._refuse(refused.code, str(refused))
            return
        await self._take_up(packet, logged_in, packet.client_id or assigned)
        try:
            is_present = await self._take_session_up(packet)
        except (Fault, MetadataError) as fault:
            self._refuse(codes.SERVER_UNAVAILABLE, str(fault))
            return
        self.input.logged_in(packet.level, self.services.config.mqtt.max_packet_size_authenticated)
        self._will = packet.will
        self._begin_keep_alive(packet.keep_alive_s)
        self.send(packets.connack(
            packet.level, is_present, codes.SUCCESS, self._told(assigned)
        ))  # fmt: skip
        if is_present and self.session.exactly_once is not None:
            self.session.exactly_once.begin()

    def _take_up(self, packet: Connect, logged_in: LoggedIn, client_id: str) -> Answer[None]:
        """The client has logged in. Answers when no other client has its identifier."""
        self.client_id = client_id
        self.client_properties = {
            "client_id": ("S", client_id),
            "product": ("S", "MQTT client"),
            "version": ("S", packet.protocol.removeprefix("MQTT ")),
        }
        self._expiry_s = self._expiry_of(packet)
        self._receive_max = packet.properties.get(RECEIVE_MAXIMUM, UINT16_MAX)
        self._packet_bytes_max = packet.properties.get(MAXIMUM_PACKET_SIZE, 0)
        self.tuning = Tuning(0, 0, packet.keep_alive_s)
        self.open_vhost(replace(logged_in.user, client_id=client_id), logged_in.vhost, WAY)
        return self.services.client_ids.take(self.vhost.name, client_id, self, packet.is_clean)

    def _expiry_of(self, packet: Connect) -> int:
        """The expiry interval of the session, in seconds; 0 if it ends with the connection."""
        settings = self.services.config.mqtt
        limit_s = settings.max_session_expiry_s
        if packet.level == codes.LEVEL_5:
            asked_s: int = packet.properties.get(SESSION_EXPIRY_INTERVAL, 0)
        elif packet.is_clean:
            asked_s = 0
        else:
            ttl_ms = settings.subscription_ttl_ms
            asked_s = PERMANENT_S if ttl_ms is None else ttl_ms // 1000
        return asked_s if limit_s is None else min(asked_s, limit_s)

    async def _take_session_up(self, packet: Connect) -> bool:
        """Continue or end the client's persistent session; returns whether it is continued."""
        queues = self.vhost.queues
        self._node.wills.client_is_back(self.vhost.name, self.client_id)
        will = queues.get(will_queue(self.client_id))
        if will is not None:
            gone: Answer[None] = Answer()
            self.vhost.delete_queue(will, self.requester, gone)
            await gone
        names = session_queues(self.client_id)
        if not any(name in queues for name in names):
            return False
        await self.queues.delete(keeps_session=not packet.is_clean)
        if not self.queues.is_present:
            return False
        await self.queues.resume()
        return True

    def _told(self, assigned: str) -> Properties:
        """The properties of CONNACK."""
        settings = self.services.config.mqtt
        told: Properties = {
            SESSION_EXPIRY_INTERVAL: self._expiry_s,
            MAXIMUM_PACKET_SIZE: settings.max_packet_size_authenticated,
            TOPIC_ALIAS_MAXIMUM: settings.topic_alias_maximum,
            SHARED_SUBSCRIPTION_AVAILABLE: int(settings.shared_subscriptions),
        }
        if settings.receive_maximum < UINT16_MAX:
            told[RECEIVE_MAXIMUM] = settings.receive_maximum
        if settings.qos2 != EXACTLY_ONCE:
            # Without this property the maximum is 2. The standard forbids sending that value.
            told[MAXIMUM_QOS] = 1
        if assigned:
            told[ASSIGNED_CLIENT_IDENTIFIER] = assigned
        return told

    def _refuse(self, code: int, reason: str) -> None:
        logger.error("closing connection %s: CONNECT is refused: %s", self.name, reason)
        self.send(packets.connack(self._level, False, code))
        self.drop()

    # Keep alive

    def _begin_keep_alive(self, keep_alive_s: int) -> None:
        if keep_alive_s:
            self.keep_alive_ms = allowed_ms(keep_alive_s)
            self._node.keep_alives.watch(self)

    @property
    def last_read_ms(self) -> int:
        """The time of the last read; the current time while the socket is not read."""
        if self.input.is_held or self.reading.is_held_back:
            return self.services.clock.now_ms()
        return self.input.last_read_ms

    def is_late(self) -> None:
        """The client has sent nothing for too long."""
        self.fail(codes.KEEP_ALIVE_TIMEOUT, "the client has sent nothing within its keep alive")

    # Packets (incoming.py)

    async def subscribe(self, packet: Subscribe) -> None:
        """Handle SUBSCRIBE."""
        granted, added = await self.queues.subscribe(packet)
        self.send(packets.suback(self._level, packet.packet_id, granted))
        if granted[-1] in (codes.NOT_AUTHORIZED, codes.REFUSED_SUBSCRIPTION_311):
            self.drop()
            return
        send_retained(self.session, added, packet.identifier)

    async def unsubscribe(self, packet: Unsubscribe) -> None:
        """Handle UNSUBSCRIBE."""
        results = [codes.NO_SUBSCRIPTION_EXISTED] * len(packet.filters)
        if self._session is not None:
            results = await self.queues.unsubscribe(packet.filters)
        self.send(packets.unsuback(self._level, packet.packet_id, results))

    def client_disconnects(self, packet: Disconnect) -> None:
        """Handle DISCONNECT."""
        logger.info("closing connection %s: the client closed it", self.name)
        if packet.code == codes.SUCCESS:
            self._will = None
        expiry_s: int | None = packet.properties.get(SESSION_EXPIRY_INTERVAL)
        if expiry_s is not None:
            if expiry_s and not self._expiry_s:
                self.fail(codes.PROTOCOL_ERROR, "DISCONNECT makes a session stay that did not")
                return
            if not expiry_s:
                self._expiry_s = 0
        self.drop()

    # For management

    @property
    def sessions(self) -> Iterable[Session]:
        """Its session, which is not shown as a channel."""
        return () if self._session is None else (self._session,)

    def status(self) -> ConnectionStatus:
        """Its status, once it has logged in."""
        will, session = self._will, self._session
        variables = {
            "client_id": text(self.client_id),
            "clean_sess": not self._expiry_s,
            "will_msg": None if will is None else will.topic.decode("utf-8", "replace"),
            "exchange": self.services.config.mqtt.exchange,
            "prefetch": min(self.services.config.mqtt.prefetch, self._receive_max),
            "unacked_pubs": 0 if session is None else len(session.unacked),
            "subscriptions": 0 if session is None else len(session.subscriptions.by_key),
        }
        return structs.replace(super().status(), variables=variables)

    # Its end

    def taken_over(self, is_clean: bool) -> None:
        """Another client has its identifier: end. is_clean: it does not continue the session."""
        will = self._will
        if will is not None and not is_clean and delay_s(will, self._expiry_s):
            self._will = None
        self.fail(codes.SESSION_TAKEN_OVER, "another client has connected with its identifier")

    def fail(self, code: int, reason: str, properties: Properties = NONE) -> None:
        """Close the connection, telling a client of MQTT 5.0 the reason code."""
        if self.ending.has_begun:
            return
        logger.error("closing connection %s: %s", self.name, reason)
        self.ending.is_protocol_error = code in (codes.MALFORMED_PACKET, codes.PROTOCOL_ERROR)
        if self.is_open and self._level == codes.LEVEL_5:
            self.send(packets.disconnect(code, properties))
        self.drop()

    def fault(self, fault: Fault) -> None:
        """Close the connection because of a fault."""
        logger.error("closing connection %s: %s", self.name, fault.explanation)
        self.drop()

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""
        if explanation == DRAINED:
            self._send_elsewhere()
        elif "shutdown" in explanation:
            self._node.wills.node_stops()
            self.fail(codes.SERVER_SHUTTING_DOWN, explanation)
        else:
            self.fail(codes.ADMINISTRATIVE_ACTION, explanation)
        self.drop()

    def _send_elsewhere(self) -> None:
        """The node is put under maintenance: tell the client which other node it may use."""
        others = self.services.mqtt_addresses.of_others
        # Addresses for clients over WebSockets are not known.
        reference = None if self.over else server_reference(others, self.client_id, self.is_tls)
        if reference is None:
            self.fail(codes.SERVER_SHUTTING_DOWN, DRAINED)
        else:
            self.fail(codes.USE_ANOTHER_SERVER, DRAINED, {SERVER_REFERENCE: reference})

    def release(self) -> None:
        """Release everything that the connection holds; may be called several times."""
        self.input.release()
        if self.keep_alive_ms:
            self.keep_alive_ms = 0
        if self.client_id and self.is_logged_in:
            self._publish_will()
            self._end_session()
            self.services.client_ids.remove(self.vhost.name, self.client_id, self)
        super().release()

    def _publish_will(self) -> None:
        will, self._will = self._will, None
        if will is not None and not self.vhost.is_deleted:
            wait_s = delay_s(will, self._expiry_s)
            self._node.wills.publish(self._make_session(2), will, self.client_id, wait_s)

    def _end_session(self) -> None:
        """Delete those queues of a session that ends now that are not exclusive."""
        if self._expiry_s or self._session is None:
            return
        for name in self._session.all_queue_names:
            queue = self.vhost.queues.get(name)
            if queue is not None and not queue.is_exclusive:
                self.vhost.delete_queue(queue, self.requester)

    def release_sessions(self) -> None:
        """Release the session; may be called several times."""
        session, self._session = self._session, None
        self._queues = None
        if session is not None:
            if session.exactly_once is not None:
                session.exactly_once.close()
            session.release()
            retained, session.retained = session.retained, None
            if retained is not None:
                retained.close()

    @property
    def is_consuming(self) -> bool:
        """Whether it has subscriptions."""
        session = self._session
        return session is not None and bool(session.consumers or session.unacked)
