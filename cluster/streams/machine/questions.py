"""Questions of a client to the leader of a stream: stored offsets and sequence numbers.

The leader answers a client when it is certain that it still leads (groups/current_answers.py): the
answer includes all that was confirmed before the question. Management asks for all of them.
"""

from struct import Struct
from typing import Final

import msgspec

from leveret.cluster.streams.machine.stream_machine import StreamMachine

_OFFSET: Final = 0
_SEQUENCE: Final = 1
_ALL: Final = 2
_NUMBER = Struct(">Q")


class QuestionError(ValueError):
    """The bytes are not a question, or an answer, of this version."""


class Tracked(msgspec.Struct, frozen=True, array_like=True):
    """The last sequence numbers of publishers, and the stored offsets, by name."""

    sequences: dict[bytes, int]
    offsets: dict[bytes, int]


def ask_offset(name: bytes) -> bytes:
    """The question for the offset that is stored under a name."""
    return bytes((_OFFSET,)) + name


def ask_sequence(publisher: bytes) -> bytes:
    """The question for the last sequence number of a named publisher."""
    return bytes((_SEQUENCE,)) + publisher


def ask_all() -> bytes:
    """The question for all stored offsets and sequence numbers."""
    return bytes((_ALL,))


def needs_current(question: bytes) -> bool:
    """Whether the answer has to know all that was confirmed before the question was asked.

    Management, which asks for all of it again and again, shows what the leader knows.
    """
    return question != ask_all()


def answer(machine: StreamMachine, question: bytes) -> bytes:
    """The leader's answer. Raises QuestionError."""
    kind, name = question[:1], question[1:]
    if kind == bytes((_OFFSET,)):
        number = machine.offsets.get(name)
    elif kind == bytes((_SEQUENCE,)):
        number = machine.sequences.get(name)
    elif question == bytes((_ALL,)):
        return msgspec.msgpack.encode(Tracked(machine.sequences, machine.offsets))
    else:
        raise QuestionError(f"a client of a stream asks {question[:20]!r}")
    return b"" if number is None else _NUMBER.pack(number)


def read_answer(data: bytes) -> int | None:
    """The number in an answer; None if there is none. Raises QuestionError."""
    if not data:
        return None
    if len(data) != _NUMBER.size:
        raise QuestionError(f"an answer about a stream has {len(data)} bytes")
    number: int = _NUMBER.unpack(data)[0]
    return number


def read_all(data: bytes) -> Tracked:
    """What `ask_all` is answered with. Raises QuestionError."""
    try:
        return msgspec.msgpack.decode(data, type=Tracked)
    except msgspec.MsgspecError as error:
        raise QuestionError(f"an answer about a stream cannot be read: {error}") from error
