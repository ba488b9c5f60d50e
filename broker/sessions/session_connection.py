"""The connection of a client, in any protocol: its user, its virtual host and its sessions.

A protocol's connection inherits from it; the sessions of the connection (session.py) refer to it.
"""

from mypy_extensions import mypyc_attr

from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.services.services import Services
from leveret.broker.sessions.targets import Targets
from leveret.broker.vhost.virtual_host import VirtualHost


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionConnection:
    """One client's connection.

    name: for operators and events. user, vhost, requester: set when the client has logged in. user:
    may be replaced while the connection is open. targets: the look-ups of its publishers.
    exclusive_queues: those that it owns, by name.
    """

    __slots__ = (
        "exclusive_queues", "name", "peer_host", "peer_port", "requester", "services", "targets",
        "user", "vhost",
    )  # fmt: skip

    user: Identity
    vhost: VirtualHost
    requester: Requester

    def __init__(self, services: Services) -> None:
        self.services = services
        self.name = "?"
        self.peer_host = ""
        self.peer_port = 0
        self.targets = Targets()
        self.exclusive_queues: dict[str, QueueClient] = {}

    def end_timed_out(self, session_number: int, timeout_ms: int) -> None:
        """End a session that has held deliveries for too long. Only clients' sessions do."""

    def force_close(self, explanation: str) -> None:
        """Close the connection, whatever its client does. Only connections of clients do."""

    def renew(self, user: Identity) -> None:
        """The user has another secret. Only connections of clients have secrets."""

    def secret_refused(self, explanation: str) -> None:
        """A new secret of the user is refused: close the connection."""

    def forget_queue(self, name: str) -> None:
        """An exclusive queue of this connection was deleted."""
        self.exclusive_queues.pop(name, None)
