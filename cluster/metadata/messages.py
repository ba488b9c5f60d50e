"""The messages between the nodes of a cluster about metadata, as MessagePack structs.

The values come first: views, positions, entries. Then one struct for each message, with its name as
tag. Only `encode` and `decode` convert messages to and from a frame's payload. The section Metadata
of docs/design/cluster.md describes when each message is sent; replication.py sends and receives
them.
"""

from typing import TypeAlias

import msgspec

# Values


class ViewId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The name of a view: unique, since an incarnation never uses an epoch twice.

    Of two ids the one with the higher epoch is higher.
    """

    epoch: int
    coordinator: str
    incarnation: int


NO_VIEW = ViewId(0, "", 0)
"""Before the first view: the position of an empty log."""


class ViewMember(msgspec.Struct, frozen=True, array_like=True):
    """One run of a node. incarnation: grows with each start. is_disc: it keeps metadata on disk."""

    name: str
    incarnation: int
    is_disc: bool = True


class View(msgspec.Struct, frozen=True, array_like=True):
    """The nodes that agree on the log, in the order in which they joined; the first coordinates."""

    id: ViewId
    members: tuple[ViewMember, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names, in the same order."""
        return tuple(member.name for member in self.members)


class MetadataPosition(msgspec.Struct, frozen=True, array_like=True):
    """The end of a log: the index of its last entry and the view that ordered this entry."""

    view: ViewId
    index: int


class ViewStart(msgspec.Struct, frozen=True, array_like=True):
    """A view of a log's past. first: the index of its first entry, if it ordered any."""

    view: ViewId
    first: int


class SubmissionId(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The name of a submission: the run of the node that submitted it, and a number in this run."""

    origin: str
    incarnation: int
    number: int


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """The outcome of a submission, at its place in the log.

    payload: what to apply, or, if is_refused, the fault for the client: then nothing is applied.
    """

    view: ViewId
    index: int
    submission: SubmissionId
    payload: bytes
    is_refused: bool = False


# Messages

STARTING = "starting"
"""The phase of a node that is not in a view yet."""
RUNNING = "running"
"""The phase of a member of a view."""
LEFT = "left"
"""The phase of a node that has left its view and is in no other one."""


class MetadataMessage(msgspec.Struct, frozen=True, tag=True, tag_field="message"):
    """A message from one node to another."""


class AnnounceStatus(MetadataMessage, frozen=True, tag="Status"):
    """The status of a node; sent to every linked node at first contact and after each change.

    view: the last installed one, perhaps before a restart. members: the view's members. is_fenced:
    the node waits to be taken into a view. links: the names of the nodes that it has links with.
    asked: the number of the request that this answers, or 0. takes_from: see `MetadataReplication`.
    companions: for a node that starts, the nodes that may have continued to run when it stopped.
    """

    view: ViewId
    members: tuple[ViewMember, ...]
    member: ViewMember
    position: MetadataPosition
    phase: str
    is_fenced: bool
    links: tuple[str, ...]
    asked: int = 0
    takes_from: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()


class Ask(MetadataMessage, frozen=True):
    """A request for the status."""

    number: int


class Propose(MetadataMessage, frozen=True):
    """A proposal of the next view. source, position: the proposer's view and the end of its log."""

    view: View
    source: ViewId
    position: MetadataPosition


class Accept(MetadataMessage, frozen=True):
    """Agreement to a proposal. The node's log stays at its position until the view is installed.

    source: the view that the node is in. entries: the entries after the proposer's position, if the
    proposer's log is a part of this node's.
    """

    view: ViewId
    source: ViewId
    position: MetadataPosition
    is_starting: bool
    entries: tuple[LogEntry, ...]


class Refuse(MetadataMessage, frozen=True):
    """A proposal is refused, or an agreement withdrawn. promised: the highest view agreed to.

    is_outdated: a proposal with an epoch above `promised` would be accepted.
    """

    view: ViewId
    reason: str
    promised: ViewId
    is_outdated: bool = False


class WithdrawProposal(MetadataMessage, frozen=True, tag="Cancel"):
    """A proposal is withdrawn by its proposer."""

    view: ViewId


class Install(MetadataMessage, frozen=True):
    """The proposed view holds. Contains everything that the receiver's log lacks up to the base.

    starts: the log's views. base: the index at which the view begins. entries: the entries after
    the receiver's position; or snapshot: everything up to the base.
    """

    view: View
    starts: tuple[ViewStart, ...]
    base: int
    entries: tuple[LogEntry, ...] = ()
    snapshot: bytes | None = None


class Obsolete(MetadataMessage, frozen=True):
    """The receiver's log cannot be extended to the view's log: it must restart to join the view."""

    view: ViewId


class SubmitOperation(MetadataMessage, frozen=True, tag="Submit"):
    """A submission, to the coordinator of the view."""

    view: ViewId
    submission: SubmissionId
    payload: bytes


class AppendEntry(MetadataMessage, frozen=True, tag="Append"):
    """The next entry of the log, from the coordinator."""

    entry: LogEntry


class Written(MetadataMessage, frozen=True):
    """A member has applied everything up to the index, and has it on disk if it is a disc node."""

    view: ViewId
    index: int


class Stable(MetadataMessage, frozen=True):
    """All members of the view have applied everything up to the index."""

    view: ViewId
    index: int


class Diverged(MetadataMessage, frozen=True):
    """The receiver's view is not behind the sender's: its log has entries that the sender's lacks.

    own, other: the two views. position: the end of the sender's log.
    """

    own: ViewId
    other: ViewId
    position: MetadataPosition


class Partitioned(MetadataMessage, frozen=True):
    """The coordinator tells its view the running nodes that the cluster is partitioned from."""

    view: ViewId
    names: tuple[str, ...]


AnyMessage: TypeAlias = (
    AnnounceStatus
    | Ask
    | Propose
    | Accept
    | Refuse
    | WithdrawProposal
    | Install
    | Obsolete
    | SubmitOperation
    | AppendEntry
    | Written
    | Stable
    | Diverged
    | Partitioned
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    """The payload of a frame."""
    return _encoder.encode(message)


def decode(payload: bytes) -> AnyMessage:
    """The message of a payload. Raises msgspec.ValidationError or msgspec.DecodeError."""
    message: AnyMessage = _decoder.decode(payload)
    return message
