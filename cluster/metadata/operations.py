"""The encoding of declarations between nodes: the payloads of the ordered log.

An operation is a group of declarations submitted together. Its outcome is the declarations that
remain when the coordinator has completed them, or the fault with which it refused them. A snapshot
has all declarations. The replication itself does not read these payloads.
"""

from collections.abc import Callable, Generator, Iterable, Sequence

import msgspec

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault, Fault
from leveret.broker.declarations.values import Declaration, decode, encode
from leveret.storage.metadata.metadata import MetadataError

ENCODE_WORK = 20
"""The work of one declaration, in the units of broker/runtime/turns.py."""

_encoded = msgspec.msgpack.Decoder(list[bytes])


def encode_all(declarations: Iterable[Declaration]) -> bytes:
    """Several declarations in one payload."""
    return msgspec.msgpack.encode([encode(one) for one in declarations])


def encoding_all(
    declarations: Iterable[Declaration],
    is_wanted: Callable[[Declaration], bool] = lambda declaration: True,
) -> Generator[int, None, bytes]:
    """`encode_all` of the wanted declarations, in steps. Yields the work of each step."""
    encoded = []
    for one in declarations:
        if is_wanted(one):
            encoded.append(encode(one))
        yield ENCODE_WORK
    return msgspec.msgpack.encode(encoded)


def decode_all(payload: bytes) -> Sequence[Declaration]:
    """The declarations of a payload. Raises ValueError."""
    return [decode(one) for one in _encoded.decode(payload)]


class RefusedByCoordinator(MetadataError):
    """The coordinator refused what this node would accept.

    It is of an earlier version, which does not know a policy key, for example, or something was
    declared meanwhile.
    """


class Refusal(msgspec.Struct, frozen=True):
    """The reason why declarations were refused.

    kind: `channel` or `connection` for a fault with a reply code, otherwise `other`.
    """

    kind: str
    reply_code: int
    text: str


def encode_refusal(error: Exception) -> bytes:
    """Encode the error that `Registry.check` raised."""
    if isinstance(error, Fault):
        kind = "channel" if isinstance(error, ChannelFault) else "connection"
        return msgspec.msgpack.encode(Refusal(kind, error.reply_code, error.explanation))
    return msgspec.msgpack.encode(Refusal("other", 0, str(error)))


def decode_refusal(payload: bytes) -> Exception:
    """The error to raise where the declarations were submitted."""
    try:
        refusal = msgspec.msgpack.decode(payload, type=Refusal)
    except msgspec.MsgspecError as error:
        return MetadataError(f"refused for a reason that cannot be read: {error}")
    if refusal.kind == "channel":
        return ChannelFault(refusal.reply_code, refusal.text)
    if refusal.kind == "connection":
        return ConnectionFault(refusal.reply_code, refusal.text)
    return RefusedByCoordinator(refusal.text)
