"""A node in this process with STOMP on its own port and over WebSockets."""

from typing import NamedTuple

from leveret.broker.config import Config, Listener, StompSettings
from leveret.broker.config.web_socket_settings import WebStompSettings
from leveret.testing import EmbeddedBroker
from tests.ports import free_port

HOST = "127.0.0.1"


class StompAddress(NamedTuple):
    """Where a node serves STOMP. url: of the WebSocket."""

    port: int
    url: str


def serve_stomp():
    """Serves until the fixture that yields from it ends."""
    port, web_port = free_port(), free_port()
    config = Config(
        stomp=StompSettings(listeners=(Listener(HOST, port),)),
        web_stomp=WebStompSettings(listeners=(Listener(HOST, web_port),)),
    )
    with EmbeddedBroker.in_thread(config):
        yield StompAddress(port, f"ws://{HOST}:{web_port}/ws")
