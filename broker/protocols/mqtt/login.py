"""CONNECT: the login of a client, the choice of its virtual host, and the codes of refusals.

The virtual host is the one in the user name (`vhost:user`), else the one of the port in the global
parameter `mqtt_port_to_vhost_mapping`, else `mqtt.vhost`. For a client with a certificate, the
global parameter `mqtt_default_vhosts` is searched first for the name in the certificate, then the
mapping of ports; if either has a virtual host, the user name is not split. With
`mqtt.ssl_cert_login`, a client that sends no user name logs in with the name in its certificate.

Source: RabbitMQ's `rabbit_mqtt_processor` (`creds`, `get_vhost`).
"""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from leveret.broker.amqp.errors import Fault
from leveret.broker.auth.certificates import CertificateLogin, CertificateRefused, name_from_session
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.config.mqtt_settings import EXACTLY_ONCE, MqttSettings
from leveret.broker.events.connection_events import login_failed, login_succeeded
from leveret.broker.policies.parameters import GLOBAL, NO_VHOST
from leveret.broker.protocols.logging_in import AuthenticatingConnection
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.packets import Connect
from leveret.broker.protocols.mqtt.properties import AUTHENTICATION_METHOD
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost

PROTOCOL: Final = "mqtt"
"""RabbitMQ's name of the protocol."""
PORT_MAPPING: Final = "mqtt_port_to_vhost_mapping"
CERTIFICATE_MAPPING: Final = "mqtt_default_vhosts"

logger = logging.getLogger("leveret.connection")


class ConnectRefused(Exception):
    """CONNECT is refused. code: the reason code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class LoggedIn(NamedTuple):
    """The user and the virtual host of a client that has logged in."""

    user: Identity
    vhost: VirtualHost


class LoginAndVhost(NamedTuple):
    """The credentials of a client, and the virtual host that it opens."""

    vhost: str
    name: str
    password: str | None


def check_connect(packet: Connect, settings: MqttSettings) -> None:
    """Raise ConnectRefused for a CONNECT that no client may send."""
    if AUTHENTICATION_METHOD in packet.properties:
        method = packet.properties[AUTHENTICATION_METHOD]
        raise ConnectRefused(codes.BAD_AUTHENTICATION_METHOD, f"there is no method {method!r}")
    if not packet.client_id and not packet.is_clean and packet.level != codes.LEVEL_5:
        raise ConnectRefused(
            codes.INVALID_CLIENT_ID, "a persistent session needs a client identifier"
        )
    is_qos_2 = packet.will is not None and packet.will.qos > 1
    if is_qos_2 and packet.level == codes.LEVEL_5 and settings.qos2 != EXACTLY_ONCE:
        raise ConnectRefused(codes.QOS_NOT_SUPPORTED, "the will has QoS 2")


def check_certificate(connection: AuthenticatingConnection, client_id: str) -> None:
    """Raise ConnectRefused if the client's certificate has another client identifier."""
    settings, tls = connection.services.config.mqtt, connection.services.config.tls
    source = settings.ssl_cert_client_id_from
    if not source or connection.tls is None:
        return
    login = CertificateLogin(
        source, settings.ssl_cert_login_san_type, settings.ssl_cert_login_san_index
    )
    try:
        name = name_from_session(connection.tls, tls, login)
    except CertificateRefused:
        return
    if name != client_id:
        raise ConnectRefused(
            codes.INVALID_CLIENT_ID, f"its certificate has the client identifier '{name}'"
        )


async def log_in(connection: AuthenticatingConnection, packet: Connect) -> LoggedIn:
    """Log the client in. Raises ConnectRefused."""
    services = connection.services
    settings = services.config.mqtt
    certificate = _certificate_name(connection)
    credentials = _credentials(connection, packet, settings, certificate)
    attempt = LoginAttempt(
        credentials.name, credentials.password, connection.peer_host, connection.name, PROTOCOL
    )
    user = await services.access.begin_log_in(attempt)
    if user is None:
        problem = f"user '{attempt.shown_name}' - invalid credentials"
        login_failed(connection, credentials.name, problem)
        raise ConnectRefused(codes.BAD_USER_NAME_OR_PASSWORD, problem)
    login_succeeded(connection, user.name)
    name = credentials.vhost
    vhost = services.vhosts.get(name)
    if vhost is None:
        raise ConnectRefused(codes.BAD_USER_NAME_OR_PASSWORD, f"vhost '{name}' does not exist")
    try:
        connection.check_node_limits()
        connection.check_limits(user, name)
    except Fault as fault:
        raise ConnectRefused(codes.QUOTA_EXCEEDED, fault.explanation) from None
    try:
        await services.access.check_vhost(user, name, connection.peer_host)
    except Fault as fault:
        raise ConnectRefused(codes.NOT_AUTHORIZED, fault.explanation) from None
    if vhost.is_deleted:
        # Deleted while a backend was checking.
        raise ConnectRefused(codes.BAD_USER_NAME_OR_PASSWORD, f"vhost '{name}' does not exist")
    return LoggedIn(user, vhost)


def _certificate_name(connection: AuthenticatingConnection) -> str | None:
    """The user name in the client's certificate; None if there is none."""
    if connection.tls is None:
        return None
    try:
        return name_from_session(connection.tls, connection.services.config.tls)
    except CertificateRefused as refused:
        logger.debug("%s: %s", connection.name, refused)
        return None


def _credentials(
    connection: AuthenticatingConnection,
    packet: Connect,
    settings: MqttSettings,
    certificate: str | None,
) -> LoginAndVhost:
    """The login of the client, and its vhost. Raises ConnectRefused."""
    user, password = packet.user, packet.password
    if user is None and password is None:
        if settings.ssl_cert_login and certificate is not None:
            user = certificate
        elif settings.allow_anonymous:
            user, password = settings.default_user, settings.default_pass
        else:
            raise ConnectRefused(
                codes.BAD_USER_NAME_OR_PASSWORD, "anonymous clients are not allowed"
            )
    elif user is None or not password:
        raise ConnectRefused(
            codes.BAD_USER_NAME_OR_PASSWORD, "there is no password, or no user name"
        )
    services, port = connection.services, str(connection.own_port)
    if certificate is not None:
        vhost = _mapped(services, CERTIFICATE_MAPPING, certificate)
        vhost = vhost or _mapped(services, PORT_MAPPING, port)
        if vhost:
            return LoginAndVhost(vhost, user, password)
    vhost, colon, name = user.rpartition(":")
    if colon:
        return LoginAndVhost(vhost, name, password)
    return LoginAndVhost(_mapped(services, PORT_MAPPING, port) or settings.vhost, user, password)


def _mapped(services: Services, parameter: str, key: str) -> str:
    """A value of a global parameter that is an object; empty if there is none."""
    mapping = services.parameters.get(GLOBAL, NO_VHOST, parameter)
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    return value if isinstance(value, str) else ""
