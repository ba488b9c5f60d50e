"""The rows of the metadata: one for each vhost, user, permission, exchange, queue and so on."""

from dataclasses import dataclass, field
from typing import NamedTuple


class VhostRow(NamedTuple):
    """A virtual host. tags: separated by commas."""

    name: str
    description: str = ""
    tags: str = ""
    tracing: bool = False


class UserRow(NamedTuple):
    """A user. password_hash: empty if the user has no password. tags: separated by commas."""

    name: str
    password_hash: bytes
    hashing_algorithm: str
    tags: str

    def __repr__(self) -> str:
        """Leave the hash out: rows are shown in logs and tracebacks."""
        return f"UserRow(name={self.name!r}, tags={self.tags!r})"


class PermissionRow(NamedTuple):
    """A user's permissions in a vhost, as three regular expressions."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(NamedTuple):
    """The routing keys of a topic exchange that a user may write and read."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


class ExchangeRow(NamedTuple):
    """A durable exchange. arguments: an encoded field table."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class QueueRow(NamedTuple):
    """A durable queue. arguments: an encoded field table.

    storage_id: the number under which the store keeps its messages.
    """

    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    storage_id: int
    arguments: bytes


class BindingRow(NamedTuple):
    """A binding of a durable exchange. destination_kind: queue or exchange."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: bytes


class ParameterRow(NamedTuple):
    """A runtime parameter: a policy, a limit, or another named value of a component.

    vhost: empty for a global parameter. value: JSON.
    """

    vhost: str
    component: str
    name: str
    value: str


@dataclass
class Definitions:
    """All declarations, each list in the order in which they were made.

    damaged: lost or doubtful declarations, as sentences that name the file.
    """

    vhosts: list[VhostRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    topic_permissions: list[TopicPermissionRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    parameters: list[ParameterRow] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
