"""The entries of a quorum queue's log, as objects and as bytes.

    entry     version u8, time i64, command     time: the leader's clock in milliseconds
    command   length of the head u32, head, messages

Numbers are little-endian. The head is msgpack, whose fields are checked when it is read. Only an
`Enqueue` and an `EnqueueOnce` have messages after them, in the format that links use; the queue
never reads them.

A client encodes a command (`encode_command`), and the leader puts the time before it (`entry_of`)
and proposes it. The commands of one sender are numbered 1, 2, 3 and so on; the first one is `Join`.
`seen`: the results of the sender's commands through this number have arrived at the client.

Positions are intervals in one list: first, last, first, last ... Each interval comes after the one
before it. A consumer is identified by its sender and the number of its `Checkout` or `Get`.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from leveret.cluster.quorum.machine.own_times import TIME_BYTES

VERSION = 1
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
FromOne: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=1 << 62)]
Priority: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]
RunField: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
NO_LIMIT = -1
TTL_MAX_MS: Final = (1 << 32) - 2
ANNOTATIONS_FEATURE = "quorum_annotations"
"""The feature of nodes that take `Modify`, and runs with annotations."""
DEFAULT_PRIORITY = 4
"""The priority of a message that has none, as in RabbitMQ 4.3."""
DEDUPLICATION_FEATURE = "quorum_deduplication"
"""The feature of nodes that take `EnqueueOnce`."""
ON_TIME_FEATURE = "quorum_expiry_on_time"
"""The feature of nodes that take `Expire`."""
QUORUM_TIMES_FEATURE = "quorum_own_times"
"""The feature of nodes that take `EnqueueTimed`, and runs with times of their own."""
QUORUM_RETRIES_FEATURE = "quorum_delayed_retries"
"""The feature of nodes that take `EndDelays`, multiply the delays of retries, and let messages
expire during them."""
RUN_FIELDS = 4
_TIME = Struct("<Bq")
_COMMAND = Struct("<I")
_START = Struct("<BqI")


class CommandError(ValueError):
    """The bytes are not an entry or a command of this version."""


class DeadLetterStrategy(IntEnum):
    """What to do with messages that die."""

    DROP = 0
    AT_MOST_ONCE = 1
    AT_LEAST_ONCE = 2


class DelayedRetry(IntEnum):
    """Which returned messages are delayed (x-delayed-retry-type)."""

    DISABLED = 0
    ALL = 1
    FAILED = 2
    RETURNED = 3


class TakenPlace(IntEnum):
    """Where messages of a `TakeOver` go: to the end, to those that were returned to the front, or
    to the dead letters that are kept, by the reason of their death.
    """

    END = 0
    FRONT = 1
    EXPIRED = 2
    REJECTED = 3
    MAXLEN = 4
    DELIVERY_LIMIT = 5


class Options(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The options of a queue: its arguments and policies, and the rules of a RabbitMQ version.

    dead_letters: AT_LEAST_ONCE only if publishes are rejected, as in RabbitMQ. delayed_retry: the
    delay is the minimum times the delivery count, up to the maximum.
    elects_by_priority: a consumer of a higher priority becomes the single active one (4.x).
    priorities: 1 (3.x); 2, where two messages of high priority are delivered for each other one
    (4.0); or 32, each of which is delivered before all lower ones (4.3).
    returns_to_end: messages that a client returns go to the end (3.x and 4.0 without a delivery
    limit). counts_returns: returns by a client count for the delivery limit (before 4.3).
    consumer_timeout_ms: for consumers without a timeout of their own; NO_LIMIT: none.
    is_successor: another queue is being converted, and this one gets its name in the end. Until
    then no message expires, and messages are taken in the order in which they were published.
    cache_size: how many identifiers of messages are known, to refuse duplicates; 0: none.
    cache_ttl_ms: how long, if that is longer than the message is in the queue.
    delayed_retry_multiplier: in thousandths; 0 for none (contract/retry_delay.py).
    delayed_expire: a returned message that is delayed expires when its time is over, and not when
    it is ready again. Members of earlier versions do not know it.
    is_delaying: no consumer gets a message. It waits until its time to live is over, and is kept as
    a dead letter then (docs/design/delayed-messages.md).
    """

    max_length: Limit = NO_LIMIT
    max_length_bytes: Limit = NO_LIMIT
    rejects_publishes: bool = False
    delivery_limit: Limit = NO_LIMIT
    message_ttl_ms: Limit = NO_LIMIT
    expires_ms: Limit = NO_LIMIT
    dead_letters: DeadLetterStrategy = DeadLetterStrategy.DROP
    is_single_active: bool = False
    elects_by_priority: bool = False
    priorities: Annotated[int, msgspec.Meta(ge=1, le=32)] = 1
    returns_to_end: bool = False
    counts_returns: bool = True
    delayed_retry: DelayedRetry = DelayedRetry.DISABLED
    delayed_retry_min_ms: Number = 0
    delayed_retry_max_ms: Number = 0
    consumer_timeout_ms: Limit = NO_LIMIT
    is_successor: bool = False
    cache_size: Number = 0
    cache_ttl_ms: Number = 0
    delayed_retry_multiplier: Number = 0
    is_delaying: bool = False
    delayed_expire: bool = False


DEFAULT_OPTIONS = Options()


class Command(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The base of all commands."""


class ClientCommand(Command, frozen=True):
    """The base of clients' commands. sender: unique to one client of the queue on a node."""

    sender: FromOne
    number: FromOne
    seen: Number


class Join(ClientCommand, frozen=True, tag=1):
    """The first command of a sender. Later senders of a node have higher numbers."""

    node: str
    incarnation: Number


class Enqueue(ClientCommand, frozen=True, tag=2):
    """Publish messages. runs: see `EnqueuedRun` and `runs_of`."""

    runs: list[RunField]


class Settle(ClientCommand, frozen=True, tag=3):
    """Acknowledge messages that a consumer holds."""

    consumer: Number
    positions: list[FromOne]


class Return(ClientCommand, frozen=True, tag=4):
    """Return messages that a consumer holds. is_failed: the client did not ask for this.

    is_unseen: the messages were not handed to the client, so this does not count as a return.
    """

    consumer: Number
    positions: list[FromOne]
    is_failed: bool
    is_unseen: bool = False


class Discard(ClientCommand, frozen=True, tag=5):
    """Reject messages that a consumer holds, so that they become dead letters."""

    consumer: Number
    positions: list[FromOne]


class Checkout(ClientCommand, frozen=True, tag=6):
    """Subscribe. The number of this command identifies the consumer.

    credit: how many messages it can hold. timeout_ms: NO_LIMIT for the timeout of the queue.
    details: shown by management; the queue does not read them.
    """

    tag: str
    credit: FromOne
    priority: Priority
    no_ack: bool
    timeout_ms: Limit
    details: bytes


class Cancel(ClientCommand, frozen=True, tag=7):
    """End a consumer. returns: return its messages, because its channel has ended."""

    consumer: Number
    returns: bool


class Get(ClientCommand, frozen=True, tag=8):
    """Take the next message. If there is one, this command's number identifies its consumer."""

    no_ack: bool


class Purge(ClientCommand, frozen=True, tag=9):
    """Drop all messages that wait for a consumer."""


class Leave(ClientCommand, frozen=True, tag=10):
    """The last command of a sender: the queue ends its consumers, and forgets it."""


class Modify(ClientCommand, frozen=True, tag=11):
    """Return or reject messages that a consumer holds, and add annotations to them.

    annotations: values of AMQP 1.0, encoded, by their names. ready_ms: on the leader's clock, not
    before which returned messages are delivered again; 0: at once.
    """

    consumer: Number
    positions: list[FromOne]
    is_failed: bool
    is_rejected: bool
    annotations: dict[str, bytes]
    ready_ms: Number = 0


class EnqueueOnce(Enqueue, frozen=True, tag=13):
    """Publish messages that are not duplicates. keys: of their identifiers, one for each message
    (broker/queues/deduplication/identifiers.py); empty for none.
    """

    keys: list[bytes]


class EnqueueTimed(Enqueue, frozen=True, tag=14):
    """Publish messages of which some have times to live of their own.

    times: for each run of such messages, by its number, counted from 0: the time to live of each
    message in milliseconds, as 32 bits (own_times.py). That of the run is the shortest of them.
    """

    times: dict[RunField, bytes]


class Configure(Command, frozen=True, tag=20):
    """Change the options, because policies have changed."""

    options: Options


class Tick(Command, frozen=True, tag=21):
    """Let the time of the entry take effect: messages expire, for example."""


class Expire(Tick, frozen=True, tag=28):
    """The same, and messages expire wherever they are in the queue, not only at its head."""


class NodeDown(Command, frozen=True, tag=22):
    """End the senders of a node that is down, for this incarnation and all earlier ones."""

    node: str
    incarnation: Number


class NodeDisconnected(Command, frozen=True, tag=23):
    """A node cannot be reached: its consumers get no new messages, and keep those they hold."""

    node: str


class NodeConnected(Command, frozen=True, tag=24):
    """A node can be reached again."""

    node: str


class LettersDone(Command, frozen=True, tag=25):
    """Drop these dead letters: all of their targets have confirmed them."""

    positions: list[FromOne]


class TakeOver(Command, frozen=True, tag=26):
    """Messages that the queue had before it had a group. runs: as in `Enqueue`.

    returns: how often each was returned. place: where they go.
    """

    runs: list[RunField]
    returns: Number
    place: TakenPlace


class EndDelays(Command, frozen=True, tag=27):
    """Make delayed messages ready now, or drop them, as an operator wants.

    positions: intervals; empty for all. first_ms, last_ms: the times of these messages, so that
    they are found among very many; 0 for any time.
    """

    positions: list[FromOne]
    is_discarded: bool
    first_ms: Number = 0
    last_ms: Number = 0


class EnqueuedRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive messages of an `Enqueue` that are alike.

    size: of each message's body. ttl_ms: of each message; NO_LIMIT: none.
    """

    count: int
    size: int
    ttl_ms: int
    priority: int


def runs_of(runs: Sequence[EnqueuedRun]) -> list[int]:
    """The runs as the numbers of an `Enqueue`."""
    return [
        field
        for run in runs
        for field in (run.count, run.size, min(run.ttl_ms, TTL_MAX_MS) + 1, run.priority)
    ]


def enqueued_runs(command: Enqueue) -> list[EnqueuedRun]:
    """The runs of an `Enqueue`."""
    fields = command.runs
    return [
        EnqueuedRun(fields[at], fields[at + 1], fields[at + 2] - 1, fields[at + 3])
        for at in range(0, len(fields), RUN_FIELDS)
    ]


def intervals_of(positions: Sequence[int]) -> list[int]:
    """The intervals of ascending positions."""
    intervals: list[int] = []
    for position in positions:
        add_interval(intervals, position, position)
    return intervals


def add_interval(intervals: list[int], first: int, last: int) -> None:
    """Add an interval behind others, as a part of the last one if it follows that directly."""
    if intervals and intervals[-1] + 1 == first:
        intervals[-1] = last
    else:
        intervals += (first, last)


def encode_command(command: Command, messages: bytes = b"") -> bytes:
    """Encode a command. messages: those of an `Enqueue`."""
    head = _ENCODER.encode(command)
    return b"".join((_COMMAND.pack(len(head)), head, messages))


def entry_of(command: bytes, now_ms: int) -> bytes:
    """The entry for a command that a leader proposes at this time."""
    return _TIME.pack(VERSION, now_ms) + command


def messages_at(entry: bytes) -> int:
    """Where the messages begin in the entry of an `Enqueue`. The command is not decoded."""
    (length,) = _COMMAND.unpack_from(entry, _TIME.size)
    return _START.size + int(length)


def entry_with(messages: bytes) -> bytes:
    """An entry that contains only messages, for `messages_at`."""
    return _START.pack(VERSION, 0, 0) + messages


def is_publish(command: bytes) -> bool:
    """Whether the bytes of a command that this node has encoded are an `Enqueue`."""
    return command[_COMMAND.size + 1] in _PUBLISH_TAGS


def decode_command(data: bytes) -> Command:
    """Decode a command without its messages. Raises CommandError."""
    return decode_entry(entry_of(data, 0)).command


class DecodedEntry(NamedTuple):
    """A decoded entry. messages_at: where its messages begin."""

    now_ms: int
    command: Command
    messages_at: int


def decode_entry(entry: bytes) -> DecodedEntry:
    """Decode an entry without its messages. Raises CommandError."""
    # Written out, without helpers and views: decoding is half of the time of applying an entry of
    # ten messages.
    try:
        version, now_ms, length = _START.unpack_from(entry)
        if version != VERSION:
            raise CommandError(
                f"an entry of a quorum queue is of version {version}; this node reads {VERSION}: "
                "update it"
            )
        end = _START.size + length
        command = _DECODER.decode(entry[_START.size : end])
    except (StructError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CommandError(f"an entry of a quorum queue is damaged: {error}") from error
    if type(command) is Enqueue or type(command) is TakeOver:
        _check_runs(command.runs)
    elif type(command) is EnqueueOnce:
        _check_runs(command.runs)
        if len(command.keys) != sum(command.runs[::RUN_FIELDS]):
            raise CommandError("a publish to a quorum queue has not one key for each message")
    elif type(command) is EnqueueTimed:
        _check_runs(command.runs)
        _check_times(command)
    else:
        _check(command, len(entry) - end)
    return DecodedEntry(now_ms, command, end)


def message_count(entry: bytes) -> int:
    """The number of messages in an entry; 0 if it is damaged."""
    try:
        command = decode_entry(entry).command
    except CommandError:
        return 0
    return sum(command.runs[::RUN_FIELDS]) if isinstance(command, Enqueue | TakeOver) else 0


def _check_runs(runs: list[int]) -> None:
    """Check the runs of a publish. Raises CommandError."""
    if not runs or len(runs) % RUN_FIELDS or 0 in runs[::RUN_FIELDS]:
        raise CommandError("a publish to a quorum queue has no runs, or a run without messages")


def _check_times(command: EnqueueTimed) -> None:
    """Check the times of a publish. Raises CommandError."""
    counts = command.runs[::RUN_FIELDS]
    for number, times in command.times.items():
        if number >= len(counts) or len(times) != counts[number] * TIME_BYTES:
            raise CommandError("a publish to a quorum queue has not one time for each message")
        if not command.runs[number * RUN_FIELDS + 2]:
            raise CommandError("a publish to a quorum queue has times for messages without one")


def _check(command: Command, messages_bytes: int) -> None:
    """Check conditions that the types of the fields do not express. Raises CommandError."""
    if messages_bytes:
        raise CommandError(
            f"a {type(command).__name__} for a quorum queue has {messages_bytes} bytes after it"
        )
    if isinstance(command, Settle | Return | Discard | Modify | LettersDone):
        if not _are_intervals(command.positions):
            raise CommandError(f"a {type(command).__name__} has positions that are no intervals")
    elif isinstance(command, EndDelays):
        if command.positions and not _are_intervals(command.positions):
            raise CommandError("an EndDelays has positions that are no intervals")
    elif isinstance(command, Join) and command.number != 1:
        raise CommandError(f"a sender of a quorum queue joins with its command {command.number}")


def _are_intervals(positions: list[int]) -> bool:
    if len(positions) == 2:
        return positions[0] <= positions[1]
    return (
        len(positions) > 0
        and len(positions) % 2 == 0
        and all(
            positions[at] <= positions[at + 1] and (not at or positions[at - 1] < positions[at])
            for at in range(0, len(positions), 2)
        )
    )


_PUBLISH_TAGS = bytes((2, 14))
"""The second byte of an encoded `Enqueue` or `EnqueueTimed`, after that of a list."""
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(
    Join
    | Enqueue
    | Settle
    | Return
    | Discard
    | Checkout
    | Cancel
    | Get
    | Purge
    | Leave
    | Modify
    | EnqueueOnce
    | EnqueueTimed
    | Configure
    | EndDelays
    | Tick
    | Expire
    | NodeDown
    | NodeDisconnected
    | NodeConnected
    | LettersDone
    | TakeOver
)
