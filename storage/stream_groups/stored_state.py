"""The state of a stream's machine in a snapshot, with the head of the log that belongs to it. Pure.

A snapshot of a member for itself covers the entries that its machine has applied. One for another
member begins its log: it covers only the entries before the head, and the machine may be ahead of
these.
"""

import msgspec

from leveret.storage.stream_log.segment_heads import SegmentHead


class StoredStateError(ValueError):
    """The bytes are not a state of this version."""


class StoredState(msgspec.Struct, frozen=True, array_like=True):
    """A state. begins_log: the log of the member that gets it begins with the head."""

    head: SegmentHead
    begins_log: bool
    machine: bytes


def encode_state(state: StoredState) -> bytes:
    """A state as bytes."""
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes) -> StoredState:
    """The state that these bytes are. Raises StoredStateError."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoredStateError(f"the state of a stream cannot be read: {error}") from error


_DECODER = msgspec.msgpack.Decoder(StoredState)
