"""The properties of one message as queues know them: their bytes, and the kind of the message.

Several messages, each in several queues, may share one `ContentHeader`, so it is never changed.
"""

from collections.abc import Sequence
from typing import Any

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import (
    EXPIRES,
    NEEDS_CARE,
    PERSISTENT,
    STORED_BCC,
    Properties,
    decode_properties,
    encode_properties,
    scan,
)
from leveret.records import use_structs

_STORED_BCC_BYTES = STORED_BCC.encode()


@mypyc_attr(acyclic=True)
class ContentHeader:
    """The properties that a message was published with; `read_header` makes it.

    raw: the property flags and values as received, and as consumers get them.
    kind: messages of one kind may be published together: they have the same delivery mode and
        priority, and the same need for care, and none or each of them expires
        (`properties.scan`).
    bcc_keys: the routing keys of the BCC header that was removed, because consumers must not see
        it.
    is_kept: the message survives a restart whatever its delivery mode is.
    stored: the bytes kept on disk for them. mark: the data that a queue which changed the
    properties keeps with them.

    Not tracked by the garbage collector: each message may have a header of its own
    (leveret/records.py says why).
    """

    __slots__ = ("_properties", "bcc_keys", "is_kept", "kind", "mark", "raw", "stored")

    def __init__(
        self,
        raw: bytes,
        kind: int,
        bcc_keys: Sequence[str],
        is_kept: bool,
        stored: bytes,
        mark: object = None,
        _properties: Properties | None = None,
    ) -> None:
        self.raw = raw
        self.kind = kind
        self.bcc_keys = bcc_keys
        self.is_kept = is_kept
        self.stored = stored
        self.mark = mark
        self._properties = _properties

    @property
    def delivery_mode(self) -> int:
        """1, 2 or what the publisher sent; 1 if it sent none."""
        return self.kind & 0xFF

    @property
    def priority(self) -> int | None:
        """None if the publisher set none."""
        priority = self.kind >> 8 & 0x1FF
        return priority - 1 if priority else None

    @property
    def needs_care(self) -> bool:
        """The publish path must decode the properties, as `properties.scan` found."""
        return self.kind >= NEEDS_CARE

    @property
    def expires(self) -> bool:
        """It has an expiration in plain digits: `properties.expiration_ms` reads it."""
        return self.kind & EXPIRES != 0

    @property
    def is_persistent(self) -> bool:
        """Whether the message survives a restart in a durable queue."""
        return self.kind & 0xFF == PERSISTENT or self.is_kept

    @property
    def properties(self) -> Properties:
        """Every property that is present. Shared: must not be changed."""
        if self._properties is None:
            self._properties = decode_properties(self.raw)
        return self._properties

    @property
    def headers(self) -> Table:
        """The headers table, empty if there is none. Shared: must not be changed."""
        headers: Table = self.properties.get("headers", {})
        return headers

    def as_persistent(self) -> "ContentHeader":
        """The same header, of a message that is kept on disk whatever its delivery mode is."""
        return ContentHeader(self.raw, self.kind, self.bcc_keys, True, self.stored)

    def replace(self, **changes: Any) -> "ContentHeader":
        """A copy with these properties changed; None removes one. The keys of BCC stay."""
        merged = {**self.properties, **changes}
        return blind_copy(encode_properties(merged), self.bcc_keys)


use_structs(__name__, ContentHeader)


def read_header(raw: bytes, bcc_keys: Sequence[str] = (), stored: bytes = b"") -> ContentHeader:
    """The header of a message with these properties. Raises PropertiesError."""
    return ContentHeader(raw, scan(raw), bcc_keys, False, stored or raw)


def header_with(**properties: Any) -> ContentHeader:
    """The header of a message with these properties, such as `delivery_mode` and `headers`."""
    return read_header(encode_properties(properties))


def blind_copy(raw: bytes, bcc_keys: Sequence[str]) -> ContentHeader:
    """A header whose BCC header was removed. On disk its keys are in a header of the broker."""
    if not bcc_keys:
        return read_header(raw)
    properties = decode_properties(raw)
    mark = ("A", [("S", key) for key in bcc_keys])
    headers = {**properties.get("headers", {}), STORED_BCC: mark}
    stored = encode_properties({**properties, "headers": headers})
    return read_header(raw, tuple(bcc_keys), stored)


def read_stored(raw: bytes) -> ContentHeader:
    """The header whose `stored` these bytes are. Raises PropertiesError."""
    header = read_header(raw)
    if _STORED_BCC_BYTES not in raw or STORED_BCC not in header.headers:
        return header
    headers = dict(header.headers)
    _, keys = headers.pop(STORED_BCC)
    return blind_copy(header.replace(headers=headers or None).raw, [key for _, key in keys])
