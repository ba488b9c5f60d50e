"""What a member asks its service to do, as values. The service does it in the given order.

`Append`, `Truncate`, `Reset` and `SaveTerm` are writes. Writes are numbered from 1 in their order,
and the service reports with `RaftMember.synced` through which number they are on disk. A member
keeps back each message that needs a write on disk, so a `Send` may be done at once.
"""

from leveret.cluster.raft.messages import Message

DATA = 0
"""The kind of entries that were proposed."""
TERM_START = 1
"""The kind of the first entry of each leader, which has no data."""
CONFIGURATION = 2
"""The kind of entries that change the members."""


class Output:
    """Something to do."""

    __slots__ = ()


class Append(Output):
    """Write consecutive entries of one term and kind. first: the index of the first one."""

    __slots__ = ("first", "kind", "payloads", "term")

    def __init__(self, first: int, term: int, kind: int, payloads: list[bytes]) -> None:
        self.first = first
        self.term = term
        self.kind = kind
        self.payloads = payloads


class Truncate(Output):
    """Void the entries from an index on."""

    __slots__ = ("first",)

    def __init__(self, first: int) -> None:
        self.first = first


class Reset(Output):
    """Void all entries: the log begins after the snapshot at this index."""

    __slots__ = ("index", "term")

    def __init__(self, index: int, term: int) -> None:
        self.index = index
        self.term = term


class SaveTerm(Output):
    """Write the term, and who has the vote in it ("": nobody yet)."""

    __slots__ = ("term", "vote")

    def __init__(self, term: int, vote: str) -> None:
        self.term = term
        self.vote = vote


class Send(Output):
    """Send a message to a member."""

    __slots__ = ("message", "to")

    def __init__(self, to: str, message: Message) -> None:
        self.to = to
        self.message = message


class Committed(Output):
    """The entries through an index are committed: apply them."""

    __slots__ = ("through",)

    def __init__(self, through: int) -> None:
        self.through = through


class Read(Output):
    """Read entries for a member that is behind, and call `entries_read` with the same two.

    At least one entry, and then as many as have `bytes_max` bytes.
    """

    __slots__ = ("bytes_max", "first", "member")

    def __init__(self, member: str, first: int, bytes_max: int) -> None:
        self.member = member
        self.first = first
        self.bytes_max = bytes_max


class SendSnapshot(Output):
    """Send the newest snapshot to a member. The end is `snapshot_sent` or `snapshot_failed`."""

    __slots__ = ("index", "to")

    def __init__(self, to: str, index: int) -> None:
        self.to = to
        self.index = index


class CancelSnapshot(Output):
    """A snapshot for a member is wanted no more."""

    __slots__ = ("to",)

    def __init__(self, to: str) -> None:
        self.to = to


class Wake(Output):
    """Call `wake` at this time or later. An earlier `Wake` may be dropped."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class LeaderChanged(Output):
    """Another member leads in a term; "": nobody that is known.

    If this member led, what it proposed and has not seen committed may be lost: propose it again.
    """

    __slots__ = ("leader", "term")

    def __init__(self, leader: str, term: int) -> None:
        self.leader = leader
        self.term = term


class TransferEnded(Output):
    """The lead was not handed over in time: this member goes on leading."""

    __slots__ = ("to",)

    def __init__(self, to: str) -> None:
        self.to = to


class MemberLost(Output):
    """A member does not have entries that it had on its disk. It gets nothing more: remove it."""

    __slots__ = ("member",)

    def __init__(self, member: str) -> None:
        self.member = member


class NoLongerMember(Output):
    """The removal of this member from the group is committed."""

    __slots__ = ()
