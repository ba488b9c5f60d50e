"""The properties of one message as queues know them: their bytes, and the kind of the message.

Several messages, each in several queues, may share one `ContentHeader`, so it is never changed.

Routing, queues and traces read the properties of AMQP 0-9-1, whatever protocol a message was
published with. A session of another protocol converts the properties that its client sends, and
keeps the client's own encoding beside them (`Form`), so that nothing is lost on the way to
consumers of that protocol: on disk, on other nodes, or when a queue changes headers. A session that
delivers a message without a form of its protocol makes one from the properties.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import (
    EXPIRES,
    NEEDS_CARE,
    PERSISTENT,
    RUN_MASK,
    STORED_BCC,
    STORED_FORM,
    STORED_RETRY,
    Properties,
    decode_properties,
    encode_properties,
    scan,
    ttl_ms_of,
)
from leveret.records import use_structs

_STORED_PREFIX: Final = b"x-leveret-"
"""The beginning of `STORED_BCC`, `STORED_FORM` and `STORED_RETRY`."""


class Form(NamedTuple):
    """A message but for its body, in the encoding of a protocol other than AMQP 0-9-1.

    protocol: its name. data: read by sessions of this protocol only.
    """

    protocol: str
    data: bytes


class Retry(NamedTuple):
    """How often a message was returned to its queue, and until when it waits there.

    due_ms: milliseconds of the wall clock; 0 if it does not wait.
    """

    returns: int
    due_ms: int


@mypyc_attr(acyclic=True)
class ContentHeader:
    """The properties that a message was published with; `read_header` makes it.

    raw: the property flags and values as received, and as consumers get them.
    kind: what queues need to know of the properties (`properties.scan`). Messages whose kinds
        differ in their times to live only may be published together (`run_kind`).
    bcc_keys: the routing keys of the BCC header that was removed, because consumers must not see
        it.
    is_kept: the message survives a restart whatever its delivery mode is.
    stored: the bytes kept on disk for them: `raw`, with headers of the broker for `bcc_keys`,
    `form` and a `Retry`.
    mark: the data that a queue which changed the properties keeps with them. A `Retry` is on disk.
    form: the publisher's own encoding, if it used another protocol.

    Not tracked by the garbage collector: each message may have a header of its own
    (leveret/records.py says why).
    """

    __slots__ = ("_properties", "bcc_keys", "form", "is_kept", "kind", "mark", "raw", "stored")

    def __init__(
        self,
        raw: bytes,
        kind: int,
        bcc_keys: Sequence[str],
        is_kept: bool,
        stored: bytes,
        mark: object = None,
        form: Form | None = None,
        _properties: Properties | None = None,
    ) -> None:
        self.raw = raw
        self.kind = kind
        self.bcc_keys = bcc_keys
        self.is_kept = is_kept
        self.stored = stored
        self.mark = mark
        self.form = form
        self._properties = _properties

    @property
    def delivery_mode(self) -> int:
        """The publisher's delivery mode, normally 1 or 2; 1 if it sent none."""
        return self.kind & 0xFF

    @property
    def priority(self) -> int | None:
        """None if the publisher set none."""
        priority = self.kind >> 8 & 0x1FF
        return priority - 1 if priority else None

    @property
    def needs_care(self) -> bool:
        """Whether the publish path must decode the properties, as `properties.scan` found."""
        return self.kind >= NEEDS_CARE

    @property
    def run_kind(self) -> int:
        """Equal for messages that may be published together: they have the same delivery mode and
        priority, and the same need for care, and none or each of them expires.
        """
        return self.kind & RUN_MASK

    @property
    def ttl_ms(self) -> int | None:
        """Its time to live in milliseconds; None if it has no expiration in plain digits."""
        kind = self.kind
        return ttl_ms_of(kind) if kind & EXPIRES else None

    @property
    def expires(self) -> bool:
        """Whether it has an expiration in plain digits."""
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
        return self.marked(None)

    def marked(self, mark: object) -> "ContentHeader":
        """As `as_persistent`, with the data that a queue keeps with it."""
        return ContentHeader(self.raw, self.kind, self.bcc_keys, True, self.stored, mark, self.form)

    def replace(self, **changes: Any) -> "ContentHeader":
        """A copy with these properties changed; None removes one. BCC keys and form stay."""
        return make_header({**self.properties, **changes}, self.bcc_keys, self.form)


use_structs(__name__, ContentHeader)


def read_header(raw: bytes) -> ContentHeader:
    """The header of a message with these properties. Raises PropertiesError."""
    return ContentHeader(raw, scan(raw), (), False, raw)


def header_with(**properties: Any) -> ContentHeader:
    """The header of a message with these properties, such as `delivery_mode` and `headers`."""
    return make_header(properties)


def make_header(
    properties: Properties,
    bcc_keys: Sequence[str] = (),
    form: Form | None = None,
    retry: Retry | None = None,
) -> ContentHeader:
    """The header of a message with these properties, and with data that consumers do not see.

    On disk the keys of BCC, the form and the retries are in headers of the broker. retry: becomes
    the `mark`.
    """
    raw = encode_properties(properties)
    if not bcc_keys and form is None and retry is None:
        return read_header(raw)
    headers: Table = dict(properties.get("headers") or {})
    if bcc_keys:
        headers[STORED_BCC] = ("A", [("S", key) for key in bcc_keys])
    if form is not None:
        headers[STORED_FORM] = ("A", [("S", form.protocol), ("x", form.data)])
    if retry is not None:
        headers[STORED_RETRY] = ("A", [("l", retry.returns), ("l", retry.due_ms)])
    stored = encode_properties({**properties, "headers": headers})
    return ContentHeader(raw, scan(raw), tuple(bcc_keys), False, stored, retry, form)


def read_stored(raw: bytes) -> ContentHeader:
    """The header whose `stored` these bytes are. Raises PropertiesError."""
    header = read_header(raw)
    # `scan` has looked for these headers, among others: only properties that need care have them.
    if not header.needs_care or _STORED_PREFIX not in raw:
        return header
    headers = dict(header.headers)
    form: Form | None = None
    bcc_keys = _keys(headers.get(STORED_BCC))
    if bcc_keys:
        del headers[STORED_BCC]
    match headers.get(STORED_FORM):
        case ("A", [("S", protocol), ("x", data)]):
            del headers[STORED_FORM]
            form = Form(protocol, data)
    retry: Retry | None = None
    match headers.get(STORED_RETRY):
        case ("A", [("l", returns), ("l", due_ms)]):
            del headers[STORED_RETRY]
            retry = Retry(returns, due_ms)
    if not bcc_keys and form is None and retry is None:
        return header
    return make_header({**header.properties, "headers": headers or None}, bcc_keys, form, retry)


def _keys(field: Field | None) -> list[str]:
    """The keys in a header; none if it is anything else."""
    match field:
        case ("A", list(fields)) if {letter for letter, _ in fields} == {"S"}:
            return [key for _, key in fields]
    return []
