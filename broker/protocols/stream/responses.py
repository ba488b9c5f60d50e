"""The frames that clients of the stream protocol get, as bytes with their size in front."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from leveret.broker.protocols.stream import codes

ID_BYTES: Final = 8
"""The size of a publishing id."""
Node = tuple[str, int]
"""The host and the port that clients connect to."""


class StreamNodes(NamedTuple):
    """The nodes of a stream, for clients. code: one of codes.py. leader: None if unknown."""

    code: int
    leader: Node | None = None
    replicas: Sequence[Node] = ()


def response(key: int, correlation: int, code: int, body: bytes = b"") -> bytes:
    """The response to a request."""
    return frame(key | codes.RESPONSE, _RESPONSE.pack(correlation, code) + body)


def frame(key: int, body: bytes = b"", version: int = 1) -> bytes:
    """A command that is not a response."""
    return _HEAD.pack(_KEY_AND_VERSION + len(body), key, version) + body


# Unasked


def tune(frame_max: int, heartbeat_s: int) -> bytes:
    """The limits that the broker proposes."""
    return frame(codes.TUNE, _TWO.pack(frame_max, heartbeat_s))


def close(correlation: int, code: int, reason: str) -> bytes:
    """The broker closes the connection."""
    return frame(codes.CLOSE, _RESPONSE.pack(correlation, code) + string(reason))


def publish_confirm(publisher: int, ids: bytes) -> bytes:
    """Confirm publishes. ids: 8 bytes each."""
    return frame(codes.PUBLISH_CONFIRM, _PUBLISHER.pack(publisher, len(ids) // ID_BYTES) + ids)


def publish_error(publisher: int, code: int, ids: Iterable[int]) -> bytes:
    """Publishes were refused."""
    errors = [_ID_AND_CODE.pack(one, code) for one in ids]
    body = _PUBLISHER.pack(publisher, len(errors)) + b"".join(errors)
    return frame(codes.PUBLISH_ERROR, body)


def metadata_update(code: int, stream: str) -> bytes:
    """A stream has changed: its publishers and subscriptions have ended."""
    return frame(codes.METADATA_UPDATE, _USHORT.pack(code) + string(stream))


def consumer_update(correlation: int, subscription: int, *, is_active: bool) -> bytes:
    """A single active consumer begins, or ends."""
    return frame(codes.CONSUMER_UPDATE, _UPDATE.pack(correlation, subscription, is_active))


def deliver_head(subscription: int, chunk_bytes: int, committed: int | None) -> bytes:
    """The beginning of a delivery, before its chunk. committed: None with version 1."""
    if committed is None:
        return _DELIVER.pack(_KEY_AND_VERSION + 1 + chunk_bytes, codes.DELIVER, 1, subscription)
    return _DELIVER_2.pack(
        _KEY_AND_VERSION + 9 + chunk_bytes, codes.DELIVER, 2, subscription, committed
    )


def credit_error(code: int, subscription: int) -> bytes:
    """The response to a credit, which reports an error and has no correlation id."""
    return frame(codes.CREDIT | codes.RESPONSE, _CREDIT.pack(code, subscription))


HEARTBEAT: Final = struct.pack(">IHH", 4, codes.HEARTBEAT, 1)


# The bodies of responses


def sasl_challenge(challenge: bytes) -> bytes:
    """The challenge of a mechanism."""
    return _USHORT.pack(len(challenge)) + challenge if challenge else b""


def opened(properties: Mapping[str, str]) -> bytes:
    """The properties of a connection that is open."""
    return pairs(properties) if properties else b""


def number(value: int) -> bytes:
    """A sequence number, or an offset."""
    return _ULONG.pack(value)


def metadata(streams: Mapping[str, StreamNodes]) -> bytes:
    """The nodes of streams. The response has no code of its own."""
    nodes: dict[Node, int] = {}
    for where in streams.values():
        for node in (*([where.leader] if where.leader else []), *where.replicas):
            nodes.setdefault(node, len(nodes))
    brokers = [
        _USHORT.pack(reference) + string(host) + _UINT.pack(port)
        for (host, port), reference in nodes.items()
    ]
    found = [
        string(name)
        + _STREAM.pack(
            where.code, nodes[where.leader] if where.leader else codes.NO_NODE, len(where.replicas)
        )
        + b"".join(_USHORT.pack(nodes[node]) for node in where.replicas)
        for name, where in streams.items()
    ]
    return list_of(brokers) + list_of(found)


def metadata_response(correlation: int, streams: Mapping[str, StreamNodes]) -> bytes:
    """The response to a request for metadata."""
    body = _UINT.pack(correlation) + metadata(streams)
    return frame(codes.METADATA | codes.RESPONSE, body)


def command_versions(*, resolves_offsets: bool) -> bytes:
    """The versions of the commands that the broker takes.

    resolves_offsets: as in RabbitMQ 4.3, whose clients then ask for it.
    """
    taken = codes.TAKEN if resolves_offsets else codes.TAKEN[:-1]
    return list_of(struct.pack(">HHH", key, *codes.VERSIONS[key]) for key in taken)


def statistics(figures: Mapping[str, int]) -> bytes:
    """The figures of a stream."""
    return list_of(string(name) + _LONG.pack(value) for name, value in figures.items())


def pairs(table: Mapping[str, str]) -> bytes:
    """Pairs of texts."""
    return list_of(string(key) + string(value) for key, value in table.items())


def strings(texts: Iterable[str]) -> bytes:
    """A list of texts."""
    return list_of(map(string, texts))


def list_of(items: Iterable[bytes]) -> bytes:
    """A list of encoded items."""
    found = list(items)
    return _UINT.pack(len(found)) + b"".join(found)


def string(text: str) -> bytes:
    """A text."""
    data = text.encode("utf-8", "surrogateescape")
    return _USHORT.pack(len(data)) + data


_KEY_AND_VERSION: Final = 4
_HEAD = struct.Struct(">IHH")
_RESPONSE = struct.Struct(">IH")
_TWO = struct.Struct(">II")
_PUBLISHER = struct.Struct(">BI")
_ID_AND_CODE = struct.Struct(">QH")
_UPDATE = struct.Struct(">IBB")
_DELIVER = struct.Struct(">IHHB")
_DELIVER_2 = struct.Struct(">IHHBQ")
_CREDIT = struct.Struct(">HB")
_STREAM = struct.Struct(">HHI")
_USHORT = struct.Struct(">H")
_UINT = struct.Struct(">I")
_ULONG = struct.Struct(">Q")
_LONG = struct.Struct(">q")
