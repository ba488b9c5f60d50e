"""A client of STOMP without a socket. Each `send_bytes` is one read of the broker."""

from typing import NamedTuple

from leveret.broker.protocols.stomp.connection import StompConnection
from tests.protocol.socketless import MemoryNode, Socket


class Frame(NamedTuple):
    """A frame that the broker sent."""

    command: str
    headers: dict
    body: str


class StompPeer:
    """One client."""

    def __init__(self, broker):
        self.broker = broker
        self.socket = Socket()
        self.connection = StompConnection(broker.services, broker.connections)
        self.connection.connection_made(self.socket)

    @property
    def is_closed(self):
        return self.socket.is_closed

    def send_bytes(self, data):
        self.connection.data_received(data)

    def send(self, command, body="", **headers):
        """Send a frame. Underscores in the names of headers stand for hyphens."""
        self.send_bytes(frame(command, body, **headers))

    async def call(self, command, body="", **headers):
        """Send a frame; returns the frames that the broker sends then."""
        self.send(command, body, **headers)
        return await self.frames()

    async def frames(self):
        """All frames since the last call."""
        return frames_of(await self.written())

    async def written(self):
        """The bytes that the broker has written since the last call."""
        return await self.socket.take_written()

    async def connect(self, version="1.2", **headers):
        credentials = {"login": "guest", "passcode": "guest", "host": "/"}
        (answer,) = await self.call("CONNECT", accept_version=version, **credentials | headers)
        assert answer.command == "CONNECTED"
        return self

    async def subscribe(self, destination, identifier="0", **headers):
        return await self.call("SUBSCRIBE", destination=destination, id=identifier, **headers)

    def disconnect(self):
        self.connection.connection_lost(None)


def frame(command, body="", **headers):
    lines = [f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items()]
    return f"{command}\n{''.join(lines)}\n{body}".encode() + b"\0"


def frames_of(data):
    found = []
    while data := data.lstrip(b"\n"):
        head, _, rest = data.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        size = int(headers.get("content-length", rest.index(b"\0")))
        found.append(Frame(command, headers, rest[:size].decode()))
        data = rest[size + 1 :]
    return found


def bodies(frames):
    return [one.body for one in frames if one.command == "MESSAGE"]


class StompNode(MemoryNode):
    """A broker and its clients."""

    def connect(self):
        """A client that has sent nothing yet."""
        return StompPeer(self.broker)

    async def client(self, version="1.2", **headers):
        """A client that is logged in."""
        return await self.connect().connect(version, **headers)
