"""Outputs of the replication of metadata: the actions that it requests of its service, as values.

Outputs are carried out in the order in which they are returned. An output with a `number` is
answered by `MetadataReplication.written(number)` when it and all with lower numbers are on disk; a
RAM node answers immediately.
"""

from typing import TypeAlias

import msgspec

from leveret.cluster.metadata.messages import (
    AnyMessage,
    Install,
    LogEntry,
    SubmissionId,
    View,
    ViewId,
    ViewStart,
)

DONE = "done"
"""The operation is applied on all members of the view."""
REFUSED = "refused"
"""The coordinator refused the operation; nothing was changed. The answer has the fault."""
FAILED = "failed"
"""It is unknown whether the operation was applied or will be. The answer has the reason."""


class SendMessage(msgspec.Struct, frozen=True):
    """Send a message to a linked node."""

    to: str
    message: AnyMessage


class SendInstall(msgspec.Struct, frozen=True):
    """Complete the message with the state after all outputs before this one, and send it."""

    to: str
    install: Install


class Apply(msgspec.Struct, frozen=True):
    """Apply an entry to the registry and write it, with its position, in one transaction."""

    number: int
    entry: LogEntry


class ViewInstalled(msgspec.Struct, frozen=True):
    """A view holds: apply its content, write all of this in one transaction, notify subscribers.

    starts: the views of the log, as `OrderedLog` keeps them. base: the index after which the view
    begins. snapshot: replaces all declarations, or None. entries: the entries to apply.
    companions: see `WriteCompanions`.
    """

    number: int
    view: View
    starts: tuple[ViewStart, ...]
    base: int
    entries: tuple[LogEntry, ...]
    snapshot: bytes | None
    companions: frozenset[str]


class WriteCompanions(msgspec.Struct, frozen=True):
    """Write the companions: the nodes that may continue when this one stops (companions.py)."""

    number: int
    companions: frozenset[str]


class WritePromise(msgspec.Struct, frozen=True):
    """Write that the node is bound to a view, after a restart as well (promises.py)."""

    number: int
    view: ViewId


class Discarded(msgspec.Struct, frozen=True):
    """A snapshot is about to replace entries that only this node has: log them, and keep them.

    first, last: the indexes of the first and the last. entries: the kept ones among them.
    """

    first: int
    last: int
    entries: tuple[LogEntry, ...]


class CheckSubmission(msgspec.Struct, frozen=True):
    """Check and complete a submission against the registry; call `checked` before anything else.

    view: the view in which it is to be ordered.
    """

    view: ViewId
    submission: SubmissionId
    payload: bytes


class AnswerClient(msgspec.Struct, frozen=True):
    """Answer the client. outcome: DONE, REFUSED or FAILED. detail: the fault or the reason."""

    submission: SubmissionId
    outcome: str
    detail: bytes = b""


class PartitionedFrom(msgspec.Struct, frozen=True):
    """The running nodes whose logs have diverged from this node's; empty if there are none."""

    names: tuple[str, ...]


class Restart(msgspec.Struct, frozen=True):
    """Stop and start again with a snapshot: the log cannot be extended to the log of the others.

    takes_from: the members of the view that has everything; see `MetadataReplication`.
    """

    takes_from: tuple[str, ...]


class Pause(msgspec.Struct, frozen=True):
    """Stop, and start again when enough nodes can be reached: the partition rule requires it.

    members: the nodes that this one could have continued with.
    """

    members: tuple[str, ...]


Output: TypeAlias = (
    SendMessage
    | SendInstall
    | Apply
    | ViewInstalled
    | WriteCompanions
    | WritePromise
    | Discarded
    | CheckSubmission
    | AnswerClient
    | PartitionedFrom
    | Restart
    | Pause
)
