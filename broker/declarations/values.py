"""Declarations: every change of a node's declared objects, as a value.

A declaration adds or replaces an object (`Put...`) or deletes one (`Delete...`). It contains only
plain data, so it can be stored, compared and sent to other nodes. `encode` and `decode` convert it
to and from the format between nodes, tagged with the name of its type.

Arguments are encoded field tables. MessagePack would lose the types of their fields (tuples become
lists, timestamps become integers), and both comparing declarations and writing them to disk need
the bytes. Live objects, such as the connection that owns an exclusive queue, are referred to by
name.

The registry holds the same User, Permission and Policy objects that declarations contain.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from leveret.broker.declarations.requester import THE_NODE, Requester
from leveret.broker.runtime.names import NODE_ITSELF, QUEUE
from leveret.broker.runtime.pending import Answer

NO_ARGUMENTS = bytes(4)
"""The encoded empty field table."""

# Contents of declarations


class User(msgspec.Struct, frozen=True):
    """A user. password_hash: empty for a user who cannot log in with a password."""

    name: str
    tags: tuple[str, ...]
    password_hash: bytes
    hashing_algorithm: str

    def __repr__(self) -> str:
        """Omit the hash, since users appear in logs and tracebacks."""
        return f"User(name={self.name!r}, tags={self.tags!r})"


class Permission(msgspec.Struct, frozen=True):
    """A user's permissions in a vhost: three regular expressions on names."""

    vhost: str
    user: str
    configure: str
    write: str
    read: str


class TopicPermission(msgspec.Struct, frozen=True):
    """The routing keys that a user may write and read on a topic exchange, as expressions."""

    vhost: str
    user: str
    exchange: str
    write: str
    read: str


class Policy(msgspec.Struct, frozen=True):
    """A policy or operator policy. definition: keys and values, such as `max-length` and 10."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: Mapping[str, Any]
    priority: int | float

    def to_json(self) -> dict[str, Any]:
        """The form in the HTTP API and in definitions files."""
        return {
            "vhost": self.vhost, "name": self.name, "pattern": self.pattern,
            "apply-to": self.apply_to, "definition": dict(self.definition),
            "priority": self.priority,
        }  # fmt: skip


# Declarations


class Declaration(msgspec.Struct, frozen=True, tag=True, tag_field="declaration", kw_only=True):
    """One change. acting_user: the user that requested it, or the node for a consequence."""

    acting_user: str = NODE_ITSELF


class InVhost(Declaration, frozen=True):
    """A change of an exchange, a queue or a binding, which live in a vhost."""

    vhost: str


class PutVhost(Declaration, frozen=True):
    """Add a vhost or replace its description and tags (separated by commas)."""

    name: str
    description: str = ""
    tags: str = ""


class DeleteVhost(Declaration, frozen=True):
    """Delete a vhost and everything in it."""

    name: str


class PutUser(Declaration, frozen=True):
    """Add or replace a user."""

    user: User


class DeleteUser(Declaration, frozen=True):
    """Delete a user, with its permissions and limits."""

    name: str


class PutPermission(Declaration, frozen=True):
    """Set a user's permissions in a vhost."""

    permission: Permission


class DeletePermission(Declaration, frozen=True):
    """Clear a user's permissions in a vhost."""

    vhost: str
    user: str


class PutTopicPermission(Declaration, frozen=True):
    """Set a user's permissions on a topic exchange."""

    permission: TopicPermission


class DeleteTopicPermission(Declaration, frozen=True):
    """Clear a user's permissions on a topic exchange, or on all in the vhost (None)."""

    vhost: str
    user: str
    exchange: str | None


class PutPolicy(Declaration, frozen=True):
    """Add or replace a policy. component: `policy` or `operator_policy`."""

    component: str
    policy: Policy


class DeletePolicy(Declaration, frozen=True):
    """Delete a policy. component: `policy` or `operator_policy`."""

    component: str
    vhost: str
    name: str


class PutVhostLimits(Declaration, frozen=True):
    """Set all limits of a vhost."""

    vhost: str
    limits: Mapping[str, int]


class DeleteVhostLimits(Declaration, frozen=True):
    """Clear all limits of a vhost."""

    vhost: str


class PutUserLimits(Declaration, frozen=True):
    """Set all limits of a user."""

    user: str
    limits: Mapping[str, int]


class DeleteUserLimits(Declaration, frozen=True):
    """Clear all limits of a user."""

    user: str


class PutParameter(Declaration, frozen=True):
    """Set a runtime parameter to a value, which is any JSON value.

    vhost: empty for a global parameter, whose component is `global`.
    """

    component: str
    vhost: str
    name: str
    value: Any


class DeleteParameter(Declaration, frozen=True):
    """Clear a runtime parameter."""

    component: str
    vhost: str
    name: str


class RequireParameter(Declaration, frozen=True):
    """Refuse the declarations submitted with it unless a runtime parameter has this value.

    It is checked when all earlier submissions are applied, and changes nothing by itself.
    """

    component: str
    vhost: str
    name: str
    value: Any


class PutExchange(InVhost, frozen=True):
    """Add an exchange. arguments: an encoded field table.

    storage_id: the number under which delayed messages are stored; 0 if none are stored.
    """

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = NO_ARGUMENTS
    storage_id: int = 0


class DeleteExchange(InVhost, frozen=True):
    """Delete an exchange, with the bindings from it and to it."""

    name: str


class PutQueue(InVhost, frozen=True):
    """Add a queue. arguments: an encoded field table.

    owner: the name of the connection that owns an exclusive queue; empty for other queues.
    owner_node: the node of that connection; empty for this node, if it is not in a cluster.
    storage_id: the number under which the queue's node stores its messages; 0 if it stores none.
    That node sets it. node, identity, record: its `Placement`; on disk and on links the record is
    called `mirrors`.
    """

    name: str
    durable: bool = False
    auto_delete: bool = False
    arguments: bytes = NO_ARGUMENTS
    owner: str = ""
    storage_id: int = 0
    owner_node: str = ""
    node: str = ""
    identity: int = 0
    record: bytes = msgspec.field(name="mirrors", default=b"")


class DeleteQueue(InVhost, frozen=True):
    """Delete a queue, with its messages and the bindings to it."""

    name: str


class PutQueueHome(InVhost, frozen=True):
    """Name another node as a queue's home. identity: the queue's."""

    name: str
    node: str
    identity: int


class ChangePlacement(InVhost, frozen=True, tag="ChangeQueueMirrors"):
    """Ask for another placement of a queue, as bytes of its kind (`QueueFactory.complete`).

    When it is ordered it is replaced by `PutPlacement`, or by the deletion of the queue, so that
    the change is made once, on the newest placement. identity: the queue's.
    """

    name: str
    identity: int
    change: bytes


class PutPlacement(InVhost, frozen=True, tag="PutQueueMirrors"):
    """Replace the placement of a queue. The fields from `node` on are a `PlacementChange`.

    identity: the queue's. storage_id: the number under which the new copy is stored; its node sets
    it.
    """

    name: str
    identity: int
    node: str
    record: bytes
    new_copy: str = ""
    storage_id: int = 0
    incarnation: int = 0


class ReplaceQueue(InVhost, frozen=True):
    """Delete a durable queue, and give its name and its bindings to another one.

    identity: of the deleted queue. successor, successor_identity: the other queue's name so far,
    and its identity. arguments: those that it has from now on. node, record: its `Placement`, which
    is added when this is ordered.
    """

    name: str
    identity: int
    successor: str
    successor_identity: int
    arguments: bytes
    node: str = ""
    record: bytes = b""


class PutBinding(InVhost, frozen=True):
    """Bind a queue or exchange to an exchange.

    destination_kind: `queue` or `exchange`. arguments: an encoded field table.
    """

    source: str
    destination: str
    routing_key: str
    destination_kind: str = QUEUE
    arguments: bytes = NO_ARGUMENTS


class DeleteBinding(InVhost, frozen=True):
    """Delete a binding, identified by all fields of its `PutBinding`."""

    source: str
    destination: str
    routing_key: str
    destination_kind: str = QUEUE
    arguments: bytes = NO_ARGUMENTS


class Submit(Protocol):
    """Has declarations written and applied (registry/declaration_log.py)."""

    def __call__(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Submit declarations together, as `DeclarationLog.submit` does."""


AnyDeclaration = (
    PutVhost | DeleteVhost | PutUser | DeleteUser | PutPermission | DeletePermission
    | PutTopicPermission | DeleteTopicPermission | PutPolicy | DeletePolicy
    | PutVhostLimits | DeleteVhostLimits | PutUserLimits | DeleteUserLimits
    | PutParameter | DeleteParameter | RequireParameter | PutExchange | DeleteExchange
    | PutQueue | DeleteQueue | PutQueueHome | ChangePlacement | PutPlacement | ReplaceQueue
    | PutBinding | DeleteBinding
)  # fmt: skip

# Between nodes

_JSON_BEGINS = b"{"
"""The first byte of JSON. In MessagePack it is a number, so no declaration begins with it."""


def encode(declaration: Declaration) -> bytes:
    """Encode a declaration as MessagePack, or as JSON if it contains a name that is not UTF-8.

    Names in AMQP may be any bytes. JSON can escape bytes that MessagePack text cannot contain.
    """
    try:
        return msgspec.msgpack.encode(declaration)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(declaration)).encode()


def decode(data: bytes) -> Declaration:
    """Decode a declaration from `encode`. Raises ValueError for other bytes."""
    declaration: Declaration
    try:
        if data[:1] == _JSON_BEGINS:
            declaration = msgspec.convert(json.loads(data), AnyDeclaration)
        else:
            declaration = msgspec.msgpack.decode(data, type=AnyDeclaration)
    except RecursionError:
        raise ValueError("a declaration is nested too deeply") from None
    return declaration
