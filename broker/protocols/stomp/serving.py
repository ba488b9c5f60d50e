"""What the frames of STOMP need of their connection."""

from typing import Any, Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.auth.identity import Identity
from leveret.broker.config import StompSettings
from leveret.broker.net.held_input import InputConnection
from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.stomp_session import StompOutput, StompSession
from leveret.broker.vhost.virtual_host import VirtualHost


class StompClient(InputConnection, Protocol):
    """The connection. session: None unless it is open. version: of STOMP, as agreed."""

    name: str
    peer_host: str
    peer_port: int
    own_host: str
    own_port: int
    mechanism: str
    over: str
    protocol: str
    client_properties: Table
    tls: Any
    version: str
    session: StompSession | None
    output: StompOutput

    @property
    def settings(self) -> StompSettings:
        """The settings of the protocol."""

    @property
    def state(self) -> str:
        """Its state, one of those in protocols/ending.py."""

    def tls_facts(self) -> dict[str, Any]:
        """RabbitMQ's management fields of the TLS session; empty without TLS."""

    def check_node_limits(self) -> None:
        """Raise 530 if the node's connection limit is reached."""

    def check_limits(self, user: Identity, vhost: str) -> None:
        """Raise 530 if the connection limit of the vhost or of the user is reached."""

    def open(self, user: Identity, vhost: VirtualHost, version: str) -> StompSession:
        """The client has logged in."""

    def begin_heart_beats(self, sent_s: int, expected_s: int) -> None:
        """Send heart-beats, and expect the client's, in these intervals. 0: none."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def fail(self, error: StompError) -> None:
        """Send an error; close the connection if it is fatal."""
