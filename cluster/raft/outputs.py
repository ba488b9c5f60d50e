"""The actions that a member asks its service for, as values. The service carries them out in order.

`Append`, `Truncate`, `ResetLog` and `SaveTerm` are writes,
numbered from 1 in order. The service calls
`RaftMember.synced` with the number of the last write that is on disk. A member holds each message
that depends on a write until that write is on disk, so a `Send` may be carried out at once.
"""

from leveret.cluster.raft.messages import RaftMessage

DATA = 0
"""The kind of proposed entries."""
TERM_START = 1
"""The kind of entries without data: the first one of each leader, and those that show that it still
leads."""
CONFIGURATION = 2
"""The kind of entries that change the members."""


class RaftOutput:
    """An action for the service."""

    __slots__ = ()


class Append(RaftOutput):
    """Write consecutive entries of one term and kind. first: the index of the first one."""

    __slots__ = ("first", "kind", "payloads", "term")

    def __init__(self, first: int, term: int, kind: int, payloads: list[bytes]) -> None:
        self.first = first
        self.term = term
        self.kind = kind
        self.payloads = payloads


class Truncate(RaftOutput):
    """Void the entries from an index on: a restart must not find them."""

    __slots__ = ("first",)

    def __init__(self, first: int) -> None:
        self.first = first


class ResetLog(RaftOutput):
    """Void all entries: the log starts after the snapshot at this index."""

    __slots__ = ("index", "term")

    def __init__(self, index: int, term: int) -> None:
        self.index = index
        self.term = term


class SaveTerm(RaftOutput):
    """Write the term, and the member that has this member's vote in it ("": none yet)."""

    __slots__ = ("term", "vote")

    def __init__(self, term: int, vote: str) -> None:
        self.term = term
        self.vote = vote


class Send(RaftOutput):
    """Send a message to a member."""

    __slots__ = ("message", "to")

    def __init__(self, to: str, message: RaftMessage) -> None:
        self.to = to
        self.message = message


class Committed(RaftOutput):
    """The entries up to an index are committed: apply them."""

    __slots__ = ("through",)

    def __init__(self, through: int) -> None:
        self.through = through


class ReadEntries(RaftOutput):
    """Read entries for a member that is behind, then call `entries_read` with `member` and `first`.

    Read at least one entry, and at most `bytes_max` bytes if there is more than one.
    """

    __slots__ = ("bytes_max", "first", "member")

    def __init__(self, member: str, first: int, bytes_max: int) -> None:
        self.member = member
        self.first = first
        self.bytes_max = bytes_max


class SendSnapshot(RaftOutput):
    """Send the newest snapshot to a member, then call `snapshot_sent` or `snapshot_failed`."""

    __slots__ = ("index", "to")

    def __init__(self, to: str, index: int) -> None:
        self.to = to
        self.index = index


class CancelSnapshot(RaftOutput):
    """Stop sending a snapshot to a member."""

    __slots__ = ("to",)

    def __init__(self, to: str) -> None:
        self.to = to


class Wake(RaftOutput):
    """Call `wake` at this time or later. Earlier requests still hold."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class LeaderChanged(RaftOutput):
    """The leader or the term has changed. leader: "" if this member knows of none.

    If this member led, entries that it proposed and that are not committed may be lost: propose
    them again.
    """

    __slots__ = ("leader", "term")

    def __init__(self, leader: str, term: int) -> None:
        self.leader = leader
        self.term = term


class LeaderTransferEnded(RaftOutput):
    """A transfer has ended without success: this member continues to lead."""

    __slots__ = ("to",)

    def __init__(self, to: str) -> None:
        self.to = to


class MemberLost(RaftOutput):
    """A member has lost entries that it had acknowledged. It is sent nothing more: remove it."""

    __slots__ = ("member",)

    def __init__(self, member: str) -> None:
        self.member = member


class NoLongerMember(RaftOutput):
    """The removal of this member from the group is committed."""

    __slots__ = ()
