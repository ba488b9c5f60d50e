"""The broker's objects, as events and taps see them: protocols, so that events stay below them."""

from typing import Protocol

from leveret.broker.events.events import Events


class Named(Protocol):
    """A virtual host, a queue or a user."""

    @property
    def name(self) -> str:
        """Its name for operators."""


class EventServices(Protocol):
    """The services that connections share."""

    @property
    def events(self) -> Events:
        """The node's."""


class EventConnection(Protocol):
    """A connection. Its name is such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""

    @property
    def name(self) -> str:
        """Its name for operators."""

    @property
    def services(self) -> EventServices:
        """The services that it shares with other connections."""

    @property
    def user(self) -> Named:
        """The user that is logged in."""
