"""The frames of remote queues between the client's node and the queue's home node.

The first octet is the kind. Frames sent for each run of messages are raw bytes with little-endian
numbers; the rest is MessagePack. Names may be any bytes in AMQP, so they are bytes here.

From the client's node:

    OPEN        number u32, `OpenQueue`      the number stands for the queue until CLOSE
    CLOSE       number u32
    PUBLISH     number u32, first u64, ttl_ms i64, count u32, run      first: 0 without confirms.
                                        ttl_ms: OWN_TTL only to nodes with OWN_TIMES_FEATURE
    SETTLE      number u32, action u8, tags u64 each
    CREDIT      consumer u32, messages i64, body bytes i64
    ASK         number u32, question u32, `QueueQuestion`
    FIGURES     `FiguresQuestion`

From the home node:

    DELIVER     consumer u32, first tag u64, count u32, may_redeliver u8, run
    TAKEN       number u32, taken bytes u64, ranges u32, (start, end) u64 each, (first, refused) u64
                each: the outcomes of publishes
    GOT         question u32, ready count u32, tag u64, run of one     answers a `GetQuestion`
    ANSWER      question u32, `QueueAnswer`
    LOST        consumer u32            its queue has crashed
                queue u32               the node leads it again, or does not have it: what was asked
                                        is not answered, and the queue has to be opened again
    COUNTS      [(identity, `CoarseCounts`), ...]

Anything else raises `QueueFrameError`, which closes the link.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from leveret.broker.queues.contract.offset_specification import NEXT, OffsetSpecification
from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
)

OPEN: Final = 1
CLOSE: Final = 2
PUBLISH: Final = 3
SETTLE: Final = 4
CREDIT: Final = 5
ASK: Final = 6
FIGURES: Final = 7
DELIVER: Final = 11
TAKEN: Final = 12
GOT: Final = 13
ANSWER: Final = 14
LOST: Final = 15
COUNTS: Final = 16

ACK: Final = 0
REQUEUE: Final = 1
GIVE_BACK: Final = 2
DISCARD: Final = 3
"""How tags are settled. GIVE_BACK: requeued, because the channel has ended."""
ACTIONS: Final = (ACK, REQUEUE, GIVE_BACK, DISCARD)

NO_TTL: Final = -1
OWN_TIMES_FEATURE: Final = "own_times_to_live"
"""The feature of nodes that take runs of messages with times to live of their own, in one frame and
in one decision of a leader.
"""
REMOTE_TAGS: Final = 1 << 61
"""Tags of deliveries count from this number, above all positions of a queue."""
NUMBER: Final = struct.Struct("<BI")
PUBLISH_START: Final = struct.Struct("<BIQqI")
SETTLE_START: Final = struct.Struct("<BIB")
ASK_START: Final = struct.Struct("<BII")
CREDIT_FRAME: Final = struct.Struct("<BIqq")
DELIVER_START: Final = struct.Struct("<BIQIB")
TAKEN_START: Final = struct.Struct("<BIQI")
GOT_START: Final = struct.Struct("<BIIQ")
TAG_BYTES: Final = 8


class QueueFrameError(ValueError):
    """A frame of another node is damaged, or makes no sense."""


class OpenQueue(msgspec.Struct, frozen=True, array_like=True):
    """A queue that the client's node is about to use.

    first_tag: the first tag of its deliveries. Tags grow over successive links, so that an old one
    is recognised.
    """

    vhost: bytes
    name: bytes
    identity: int
    first_tag: int


class QueueQuestion(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A question to a queue."""


class GetQuestion(QueueQuestion, frozen=True, tag="Get"):
    """Get a message."""

    ack_required: bool


class SubscribeQuestion(QueueQuestion, frozen=True, tag="Subscribe"):
    """Add a consumer. consumer: its number. messages, body_bytes: its initial credit.

    start: see `Consumer.start`. Older versions do not send it.
    """

    consumer: int
    tag: bytes
    no_ack: bool
    is_exclusive: bool
    priority: int
    messages: int
    body_bytes: int
    figures: ConsumerFigures
    start: OffsetSpecification = NEXT


class CancelQuestion(QueueQuestion, frozen=True, tag="Cancel"):
    """Cancel a consumer."""

    consumer: int
    channel_ended: bool


class Length(QueueQuestion, frozen=True):
    """Count the ready messages and the consumers."""


class PurgeQuestion(QueueQuestion, frozen=True, tag="Purge"):
    """Drop the ready messages."""


class Delete(QueueQuestion, frozen=True):
    """Delete the queue. The last three fields are the requester's."""

    if_unused: bool
    if_empty: bool
    user: bytes
    address: bytes
    way: bytes


class StatusQuestion(QueueQuestion, frozen=True, tag="Status"):
    """All figures of a queue."""


AnyQuestion = (
    GetQuestion
    | SubscribeQuestion
    | CancelQuestion
    | Length
    | PurgeQuestion
    | Delete
    | StatusQuestion
)


class FullFigures(msgspec.Struct, frozen=True, array_like=True):
    """The answer to `StatusQuestion`."""

    status: QueueStatus
    ages: AgeFigures
    consumers: list[ConsumerFigures]
    backing: dict[str, Any]


class QueueAnswer(msgspec.Struct, frozen=True, array_like=True):
    """An answer: counts, figures, or a fault.

    count, consumer_count: the requested counts. code, text: the fault's; code 0 without a fault.
    closes_connection: the fault closes the connection.
    """

    count: int = 0
    consumer_count: int = 0
    figures: FullFigures | None = None
    code: int = 0
    text: bytes = b""
    closes_connection: bool = False


class FiguresQuestion(msgspec.Struct, frozen=True, array_like=True):
    """The queues whose counts are requested: vhost, name and identity of each."""

    queues: list[tuple[bytes, bytes, int]]


Counts = list[tuple[int, CoarseCounts]]

Value = TypeVar("Value")
encode = msgspec.msgpack.Encoder().encode
decode_open: Final = msgspec.msgpack.Decoder(OpenQueue).decode
decode_question: Final = msgspec.msgpack.Decoder(AnyQuestion).decode
decode_result: Final = msgspec.msgpack.Decoder(QueueAnswer).decode
decode_figures_question: Final = msgspec.msgpack.Decoder(FiguresQuestion).decode
decode_counts: Final = msgspec.msgpack.Decoder(Counts).decode


def decoded(decode: Callable[[bytes], Value], data: bytes) -> Value:
    """The structure in these bytes. Raises QueueFrameError."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise QueueFrameError(f"a structure cannot be decoded: {error}") from None


def fields(layout: struct.Struct, payload: bytes) -> tuple[Any, ...]:
    """The numbers at the start of a payload, without its kind. Raises QueueFrameError."""
    if len(payload) < layout.size:
        raise QueueFrameError(f"a frame of kind {payload[0]} has {len(payload)} bytes")
    return layout.unpack_from(payload)[1:]


def numbers(payload: bytes, start: int) -> tuple[int, ...]:
    """The u64 numbers in the rest of a payload. Raises QueueFrameError."""
    count, rest = divmod(len(payload) - start, TAG_BYTES)
    if rest:
        raise QueueFrameError(
            f"{rest} bytes follow the last number of a frame of kind {payload[0]}"
        )
    return struct.unpack_from(f"<{count}Q", payload, start)


def packed(values: list[int]) -> bytes:
    """Numbers in the form that `numbers` reads."""
    return struct.pack(f"<{len(values)}Q", *values)
