"""MQTT and STOMP over WebSockets as protocols that a node serves."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from leveret.broker.config import WebSocketSettings
from leveret.broker.config.tls_settings import TlsListenerOptions
from leveret.broker.config.web_socket_settings import TEXT_FRAMES
from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.protocols.mqtt.mqtt_protocol import mqtt_protocol
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.protocols.stomp.stomp_protocol import stomp_protocol
from leveret.broker.protocols.websockets.opening import Offer
from leveret.broker.protocols.websockets.web_socket import (
    CloseReason,
    WebProtocol,
    WebSocket,
    broke,
    died,
)
from leveret.broker.services.services import Services
from leveret.broker.sessions.served_connection import ServedConnection

WEB_MQTT: Final = "http/web-mqtt"
WEB_STOMP: Final = "http/web-stomp"
_MQTT: Final = ("mqtt",)
_STOMP: Final = ("v12.stomp", "v11.stomp", "v10.stomp")


def web_mqtt_protocol(services: Services, connections: set[ServedConnection]) -> ServedProtocol:
    """MQTT over WebSockets. connections: those of the whole node."""
    settings = services.config.web_mqtt
    protocol = WebProtocol(
        settings,
        Offer(settings.path, _MQTT, needs_subprotocol=True, compresses=settings.compresses),
        mqtt_protocol(services, connections).make_connection, _mqtt_closing,
        has_binary_only=True, sends_text=False,
        opening_timeout_ms=services.config.mqtt.login_timeout_ms,
    )  # fmt: skip
    return _served(services, WEB_MQTT, "web_mqtt", settings, protocol)


def web_stomp_protocol(services: Services, connections: set[ServedConnection]) -> ServedProtocol:
    """STOMP over WebSockets. connections: those of the whole node."""
    settings = services.config.web_stomp
    offer = Offer(
        settings.path, _STOMP, False, settings.uses_http_auth, compresses=settings.compresses
    )
    protocol = WebProtocol(
        settings, offer,
        stomp_protocol(services, connections).make_connection, _stomp_closing,
        has_binary_only=False, sends_text=settings.frames == TEXT_FRAMES,
        opening_timeout_ms=services.config.stomp.login_timeout_ms,
    )  # fmt: skip
    return _served(services, WEB_STOMP, "web_stomp", settings, protocol)


def _served(
    services: Services, name: str, section: str, settings: WebSocketSettings, protocol: WebProtocol
) -> ServedProtocol:
    make: Callable[[], Any] = partial(WebSocket, services.clock, protocol)
    has_own = settings.tls != TlsListenerOptions()
    return ServedProtocol(
        name, settings.listeners, settings.tls_listeners, f"{section}.listeners",
        f"{section}.tls_listeners", make, f"{section}.tls" if has_own else "tls.options",
    )  # fmt: skip


def _mqtt_closing(connection: SocketConnection) -> CloseReason:
    if connection.ending.is_protocol_error:
        return broke("cannot_parse")
    if not connection.is_logged_in:
        return broke("connect_packet_rejected" if connection.bytes_out else "cannot_parse")
    return died(connection, "MQTT")


def _stomp_closing(connection: SocketConnection) -> CloseReason:
    return died(connection, "STOMP")
