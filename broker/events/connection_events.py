"""The events of connections and logins.

Fields are those of RabbitMQ's `rabbit_reader`, except that an address is written as such, and not
as an Erlang term. Connections have no Erlang processes here; ids made of their names stand for
those.
"""

from typing import Any, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.events.subjects import EventServices, Named
from leveret.broker.events.taps import Taps

AMQP_0_9_1 = "AMQP 0-9-1"
NO_TLS = {
    "ssl": False, "ssl_protocol": "", "ssl_key_exchange": "", "ssl_cipher": "", "ssl_hash": "",
    "peer_cert_subject": "", "peer_cert_issuer": "", "peer_cert_validity": "",
}  # fmt: skip
NOT_OF_LOGINS = ("ssl_key_exchange", "ssl_hash")


class ConnectedClient(Protocol):
    """A connection whose client may not have logged in yet."""

    name: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    protocol: str
    mechanism: str
    client_properties: Table

    @property
    def services(self) -> EventServices:
        """The services that it shares with other connections."""

    def tls_facts(self) -> dict[str, Any]:
        """The TLS session's version, cipher and certificate; empty if there is none."""


class TracedVhost(Protocol):
    """A virtual host. tracer: None while it is not traced."""

    name: str
    tracer: Taps | None


class AgreedLimits(Protocol):
    """The limits that tune-ok agreed on."""

    @property
    def heartbeat_s(self) -> int:
        """Seconds."""

    @property
    def frame_bytes_max(self) -> int:
        """Bytes."""

    @property
    def channel_max(self) -> int:
        """Channels."""


class EstablishedConnection(ConnectedClient, Protocol):
    """A connection that is open."""

    connected_at_s: float

    @property
    def user(self) -> Named:
        """The user that is logged in."""

    @property
    def vhost(self) -> TracedVhost:
        """The virtual host that was opened."""

    @property
    def tuning(self) -> AgreedLimits:
        """The limits of the connection."""


def connection_created(connection: EstablishedConnection) -> None:
    """A client opened a vhost."""
    if connection.vhost.tracer is not None:
        connection.vhost.tracer.connection_opened(connection)
    events = connection.services.events
    if not events.are_wanted:
        return
    events.notify("connection.created", {
        "type": "network",
        "pid": events.pid(connection.name),
        "name": connection.name,
        "port": connection.own_port,
        "peer_port": connection.peer_port,
        "host": connection.own_host,
        "peer_host": connection.peer_host,
        **_tls(connection),
        "auth_mechanism": connection.mechanism,
        "protocol": connection.protocol,
        "user": connection.user.name,
        "vhost": connection.vhost.name,
        "timeout": connection.tuning.heartbeat_s,
        "frame_max": connection.tuning.frame_bytes_max,
        "channel_max": connection.tuning.channel_max,
        "client_properties": connection.client_properties,
        "connected_at": int(connection.connected_at_s * 1000),
        "node": events.node,
        "user_who_performed_action": connection.user.name,
        **_own_name(connection),
    })  # fmt: skip


def vhost_left(connection: EstablishedConnection) -> None:
    """A connection that had opened a vhost has ended."""
    if connection.vhost.tracer is not None:
        connection.vhost.tracer.connection_closed(connection)


def connection_closed(connection: ConnectedClient) -> None:
    """A client's socket is closed, whether it ever opened a vhost or not."""
    events = connection.services.events
    if events.are_wanted:
        events.notify("connection.closed", {
            "name": connection.name, "pid": events.pid(connection.name), "node": events.node,
            "client_properties": connection.client_properties, **_own_name(connection),
        })  # fmt: skip


def login_succeeded(client: ConnectedClient, name: str) -> None:
    """A client has logged in."""
    if client.services.events.are_wanted:
        client.services.events.notify("user.authentication.success", _login_facts(client, name))


def login_failed(client: ConnectedClient, name: str | None, error: str) -> None:
    """A login was refused. name: None if the client gave none."""
    if client.services.events.are_wanted:
        facts = {**_login_facts(client, name), "error": error}
        client.services.events.notify("user.authentication.failure", facts)


def _login_facts(client: ConnectedClient, name: str | None) -> dict[str, Any]:
    """The known facts, as in RabbitMQ."""
    facts = {
        "connection_type": "network",
        "name": name or "",
        "connection_name": client.name,
        "host": client.own_host,
        "peer_host": client.peer_host,
        "peer_port": client.peer_port,
        "protocol": client.protocol,
        "auth_mechanism": client.mechanism,
        **{key: value for key, value in _tls(client).items() if key not in NOT_OF_LOGINS},
    }
    return {key: value for key, value in facts.items() if value != ""}


def _tls(client: ConnectedClient) -> dict[str, Any]:
    known = {key: value for key, value in client.tls_facts().items() if value is not None}
    return {**NO_TLS, **known}


def _own_name(client: ConnectedClient) -> dict[str, Any]:
    """The name that the client gave the connection, if any."""
    name = client.client_properties.get("connection_name", ("S", None))[1]
    return {"user_provided_name": name} if isinstance(name, str) else {}
