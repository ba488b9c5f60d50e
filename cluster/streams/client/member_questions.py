"""What a node without a member of a stream asks a node that has one: chunks, and offsets.

A question for chunks is answered when there are some, or after `HELD_MS` without any. So a reader
that waits asks rarely, and gets what is committed at once.
"""

from typing import Final, TypeAlias, TypeVar

import msgspec

Value = TypeVar("Value")

HELD_MS: Final = 5000
"""How long a question for chunks waits for some."""


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


MemberQuestion: TypeAlias = ReadChunks | ResolveOffset | AskStats


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


def decode_offset(data: bytes) -> int:
    """The answer to `ResolveOffset`. Raises MemberQuestionError."""
    return _decoded(_NUMBER, data)


def _decoded(decoder: msgspec.msgpack.Decoder[Value], data: bytes) -> Value:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MemberQuestionError(f"a question about a stream cannot be read: {error}") from error
