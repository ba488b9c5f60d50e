"""The connection of a STOMP client, as the handlers of its frames see it."""

from typing import Protocol

from leveret.broker.auth.identity import Identity
from leveret.broker.config import StompSettings
from leveret.broker.net.held_input import InputConnection
from leveret.broker.protocols.logging_in import AuthenticatingConnection
from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.stomp_session import StompOutput, StompSession
from leveret.broker.vhost.virtual_host import VirtualHost


class StompClient(AuthenticatingConnection, InputConnection, Protocol):
    """The connection. session: None unless it is open. version: the negotiated version of STOMP.

    credentials: a name and a password that replace those of the client.
    """

    over: str
    version: str
    credentials: tuple[str, str] | None
    session: StompSession | None
    output: StompOutput

    @property
    def settings(self) -> StompSettings:
        """The settings of the protocol."""

    @property
    def state(self) -> str:
        """One of the states in protocols/ending.py."""

    def open(self, user: Identity, vhost: VirtualHost, version: str) -> StompSession:
        """The client has logged in."""

    def begin_heart_beats(self, sent_s: int, expected_s: int) -> None:
        """Send heart-beats, and expect the client's, at these intervals. 0: none."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""

    def fail(self, error: StompError) -> None:
        """Send an error; close the connection if it is fatal."""
