"""A connection that the node serves, in any protocol, as the node and management see it.

A protocol's connection is a `SessionConnection` with these additional members, and is in the
broker's `connections` from the beginning to the end of its socket.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from leveret.broker.auth.identity import Identity
from leveret.broker.queues.contract.link_status import SessionStatus
from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import ConnectionStatus
from leveret.broker.sessions.targets import Targets
from leveret.broker.vhost.virtual_host import VirtualHost

DRAINED: Final = "Node was put into maintenance mode"
"""RabbitMQ's reason for closing a connection when its node is drained."""


class ServedConnection(Protocol):
    """One client's connection. bytes_in, bytes_out, reads, writes: totals of its socket."""

    name: str
    protocol: str
    peer_host: str
    peer_port: int
    user: Identity
    vhost: VirtualHost
    targets: Targets
    connected_at_s: float

    def __hash__(self) -> int:
        """Connections are members of sets, by identity."""

    @property
    def bytes_in(self) -> int:
        """Total bytes read."""

    @property
    def bytes_out(self) -> int:
        """Total bytes written."""

    @property
    def reads(self) -> int:
        """Total reads of the socket."""

    @property
    def writes(self) -> int:
        """Total writes to the socket."""

    @property
    def is_logged_in(self) -> bool:
        """Whether it has opened a vhost: user and vhost are known."""

    @property
    def is_open(self) -> bool:
        """Whether a vhost is open, and the end of the connection has not begun."""

    @property
    def generation(self) -> int | None:
        """The generation of its vhost; None before it has one."""

    @property
    def publishing_state(self) -> str:
        """`blocked`, `flow` or `running`: the state that RabbitMQ's management shows."""

    @property
    def channels(self) -> Mapping[int, Session]:
        """The open sessions, by number: channels in AMQP 0-9-1."""

    @property
    def sessions(self) -> Iterable[Session]:
        """Its open sessions, also those that are not shown as channels."""

    def publishers(self) -> list[PublisherFigures]:
        """Its publishers, in a protocol without channels."""

    def subscriptions(self) -> list[SubscriptionFigures]:
        """Its subscriptions, in a protocol without channels."""

    def sessions_with_links(self) -> list[SessionStatus] | None:
        """The status of its sessions in AMQP 1.0; None in other protocols."""

    def status(self) -> ConnectionStatus:
        """Its status, once it has logged in."""

    def alarms_changed(self) -> None:
        """An alarm was raised or cleared."""

    def congestion_changed(self) -> None:
        """The store became congested, or is no longer congested."""

    def check_consumer_timeout(self, timeout_ms: int) -> None:
        """End each session that holds a delivery unsettled for longer than its timeout."""

    def force_close(self, explanation: str) -> None:
        """Close the connection at an operator's request, or because the broker stops."""

    def abort(self) -> None:
        """Close the socket immediately and discard unsent output."""
