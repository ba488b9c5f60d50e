"""The questions of the client of a stream to that on another node.

A node without a member asks one that has a member for chunks and offsets. A question for chunks is
answered when there are some, or after `HELD_MS` without any. So a reader that waits asks rarely,
and gets what is committed at once. In the same way each node with single active consumers asks the
leader's node which of them is active (led_groups.py).
"""

from typing import Final, TypeAlias, TypeVar

import msgspec

from leveret.broker.queues.contract.status import ConsumerFigures

Value = TypeVar("Value")

HELD_MS: Final = 5000
"""The time for which a question waits for something new."""


class MemberQuestionError(ValueError):
    """The bytes are not a question to a member, or an answer, of this version."""


class ReadChunks(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Chunks from an offset on, of about this many bytes. See `StreamFilter` for the rest."""

    offset: int
    bytes_max: int
    filter_values: tuple[bytes, ...]
    matches_unfiltered: bool


class ResolveOffset(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The offset for an offset specification."""

    kind: str
    value: int


class AskStats(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The offsets of the stream."""


class AskGroup(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Which of the consumers of a group that a client has is active.

    client: the number of the client. consumers: numbers of its consumers, in the order in which
    they came; none if it has left the group. active: the one that is active, by what the client
    knows; stopped: the one that has stopped; 0 for none. seen: the last answer.
    """

    client: int
    name: bytes
    partition: int
    consumers: tuple[int, ...]
    active: int
    stopped: int
    seen: "ActiveConsumer"


class ActiveConsumer(msgspec.Struct, frozen=True, array_like=True):
    """Which consumer of a client is active, and which one has to stop; 0 if none of its own."""

    active: int = 0
    stopping: int = 0


class ToldUse(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a client tells the leader's node about its use of the stream (told_uses.py).

    readers: the number of readers on its node. The other fields count messages since it began.
    """

    client: int
    node: str
    consumers: list[ConsumerFigures]
    readers: int
    published: int
    delivered: int
    acked: int


MemberQuestion: TypeAlias = ReadChunks | ResolveOffset | AskStats | AskGroup | ToldUse


class Offsets(msgspec.Struct, frozen=True, array_like=True):
    """The first offset that a member has, and the offset after the last committed message."""

    first: int
    end: int

    @property
    def count(self) -> int:
        """The number of messages."""
        return self.end - self.first


class Chunks(msgspec.Struct, frozen=True, array_like=True):
    """Chunks as they are stored. next_offset: where to go on; chunks may have been left out."""

    offsets: Offsets
    next_offset: int
    chunks: list[bytes]


class Stats(msgspec.Struct, frozen=True, array_like=True):
    """All offsets of a stream. last_chunk: the first one of the last chunk with messages."""

    offsets: Offsets
    last_chunk: int


encode = msgspec.msgpack.Encoder().encode
_QUESTIONS: Final = msgspec.msgpack.Decoder(MemberQuestion)
_CHUNKS: Final = msgspec.msgpack.Decoder(Chunks)
_STATS: Final = msgspec.msgpack.Decoder(Stats)
_STATE: Final = msgspec.msgpack.Decoder(ActiveConsumer)
_NUMBER: Final = msgspec.msgpack.Decoder(int)


def decode_question(data: bytes) -> MemberQuestion:
    """The question that these bytes are. Raises MemberQuestionError."""
    question: MemberQuestion = _decoded(_QUESTIONS, data)
    return question


def decode_chunks(data: bytes) -> Chunks:
    """The answer to `ReadChunks`. Raises MemberQuestionError."""
    return _decoded(_CHUNKS, data)


def decode_stats(data: bytes) -> Stats:
    """The answer to `AskStats`. Raises MemberQuestionError."""
    return _decoded(_STATS, data)


def decode_state(data: bytes) -> ActiveConsumer:
    """The answer to `AskGroup`. Raises MemberQuestionError."""
    return _decoded(_STATE, data)


def decode_offset(data: bytes) -> int:
    """The answer to `ResolveOffset`. Raises MemberQuestionError."""
    return _decoded(_NUMBER, data)


def _decoded(decoder: msgspec.msgpack.Decoder[Value], data: bytes) -> Value:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MemberQuestionError(f"a question about a stream cannot be read: {error}") from error
