"""What events and taps see of the broker's objects: protocols, so that events stay below them."""

from typing import Protocol

from leveret.broker.events.events import Events


class Named(Protocol):
    """A virtual host, a queue or a user."""

    @property
    def name(self) -> str:
        """What operators know it by."""


class EventServices(Protocol):
    """What connections share."""

    @property
    def events(self) -> Events:
        """The node's."""


class EventConnection(Protocol):
    """A connection. Its name is such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""

    @property
    def name(self) -> str:
        """What operators know it by."""

    @property
    def services(self) -> EventServices:
        """What it shares with others."""

    @property
    def user(self) -> Named:
        """Who is logged in."""
