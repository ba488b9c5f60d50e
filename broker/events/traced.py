"""The objects that traces observe, as their reporters show them to a tracer."""

from typing import Protocol

from leveret.broker.events.subjects import Named


class TracedConnection(Protocol):
    """A connection in a vhost. name: such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""

    @property
    def name(self) -> str:
        """Its name for operators."""

    @property
    def user(self) -> Named:
        """The user that is logged in."""


class TracedChannel(Protocol):
    """A channel. number: given by the client."""

    number: int

    @property
    def connection(self) -> TracedConnection:
        """The connection that it belongs to."""


class TracedKind(Protocol):
    """The kind of a queue. removes_messages: an ack removes a message; False for streams."""

    @property
    def removes_messages(self) -> bool:
        """Whether its messages leave it."""


class TracedQueue(Protocol):
    """A queue, or a stream."""

    name: str

    @property
    def kind(self) -> TracedKind:
        """Its kind."""
