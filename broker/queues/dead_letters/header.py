"""Dead letters: the x-death header of a message that died in a queue, and the cycle rule.

Each (queue, reason) pair under which a message has died has one entry in its x-death array, with a
count. The latest is the first one; the order of the other entries has no meaning. A message that
would return to a queue without a client having rejected it on the way is in a cycle and is dropped.

Source: RabbitMQ's `rabbit_dead_letter` and its documentation, "Dead Letter Exchanges".
"""

from collections import Counter
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader, make_header
from leveret.broker.amqp.field_table import (
    Field,
    Table,
    decode_field,
    encode_field,
    encode_short_string,
    text_of,
)
from leveret.broker.amqp.header_bytes import HeaderBytes, field_places, replace_fields
from leveret.broker.amqp.properties import EXPIRES, NEEDS_CARE, decode_properties
from leveret.storage.messages.message import Address

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
DEAD_LETTER_WORK = 80
"""The work of publishing one dead letter (broker/runtime/turns.py): 20 microseconds."""
DECODED_BYTES = 3
"""The bytes of a header that one unit of work decodes."""
DEATH_HEADERS = (
    "x-death",
    *(f"x-{which}-death-{what}" for which in ("first", "last")
      for what in ("reason", "queue", "exchange")),
)  # fmt: skip
"""The headers that record deaths. RabbitMQ 3 has no x-last-death headers."""
_X_DEATH, _CC = encode_short_string("x-death"), encode_short_string("CC")
_WATCHED = frozenset([_CC, *map(encode_short_string, DEATH_HEADERS)])
_DEATH_MARK = b"-death"
"""A part that the names of all these headers contain."""


def letter_work(header: ContentHeader) -> int:
    """The work of publishing a message with these properties as a dead letter."""
    return DEAD_LETTER_WORK + decoding_work(header)


def decoding_work(header: ContentHeader) -> int:
    """The work of decoding a message's headers, and of encoding them again."""
    return len(header.raw) // DECODED_BYTES


class DeathRecord:
    """The deaths that the headers of a dead letter record.

    fields: encoded, by their names as short strings; empty for a field to be removed. appended:
    the same fields joined. copied_keys: the keys of the CC header. in_cycle: the names of the
    queues in which it died since a client last rejected it.
    """

    __slots__ = ("appended", "copied_keys", "fields", "in_cycle")

    def __init__(
        self, fields: dict[bytes, bytes], copied_keys: list[str], in_cycle: frozenset[str]
    ) -> None:
        self.fields = fields
        self.copied_keys = copied_keys
        self.in_cycle = in_cycle
        self.appended = b"".join([name + field for name, field in fields.items() if field])


class DeathNotes:
    """Records deaths in the headers of messages that die together: in one queue, for one reason.

    time_s: the time of the deaths. drop_cc: drop the keys of CC and BCC, because the queue sets the
    routing key of its dead letters. tells_last: set the x-last-death headers.

    Only the fields that record deaths are decoded, once for all messages with equal fields and the
    same address; other fields are copied.
    """

    __slots__ = ("_drop_cc", "_queue", "_reason", "_records", "_tells_last", "_time_s")

    def __init__(
        self, queue: str, reason: str, time_s: int, drop_cc: bool, tells_last: bool
    ) -> None:
        self._queue = queue
        self._reason = reason
        self._time_s = time_s
        self._drop_cc = drop_cc
        self._tells_last = tells_last
        self._records: dict[tuple[bytes, bytes, bytes, bytes | None], DeathRecord] = {}

    def add(self, header: ContentHeader, address: Address) -> tuple[ContentHeader, DeathRecord]:
        """The header of a message's dead letter, and the deaths that it records.

        address: the address to which the message was last published.
        """
        properties = HeaderBytes(header.raw)
        fields = properties.fields
        if _DEATH_MARK in fields or _CC in fields:
            places = field_places(fields, _WATCHED)
            x_death, cc = _field_at(fields, places, _X_DEATH), _field_at(fields, places, _CC)
            record = self._record_of(address, x_death, cc, properties.expiration)
            fields = replace_fields(fields, places, record.fields)
        else:
            record = self._record_of(address, b"", b"", properties.expiration)
            fields += record.appended
        raw = properties.with_fields(fields)
        bcc_keys = () if self._drop_cc else header.bcc_keys
        if bcc_keys or header.form is not None:
            return make_header(decode_properties(raw), bcc_keys, header.form), record
        # Its expiration is among the deaths now: the letter itself does not expire.
        kind = (header.run_kind | NEEDS_CARE) & ~EXPIRES
        return ContentHeader(raw, kind, (), False, raw), record

    def _record_of(
        self, address: Address, x_death: bytes, cc: bytes, expiration: bytes | None
    ) -> DeathRecord:
        key = (address.encoded, x_death, cc, expiration)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = self._record(address, x_death, cc, expiration)
        return record

    def _record(
        self, address: Address, x_death: bytes, cc: bytes, expiration: bytes | None
    ) -> DeathRecord:
        queue, reason = self._queue, self._reason
        headers: Table = {"x-death": decode_field(x_death)} if x_death else {}
        copied = cc_keys({"CC": decode_field(cc)} if cc else {})
        text = None if expiration is None else text_of(expiration)
        death = _death(address, copied, queue, reason, self._time_s, text)
        _record_death(headers, death, address, queue, reason)
        if self._tells_last:
            _tell("last", headers, address, queue, reason)
        fields = {encode_short_string(name): encode_field(headers[name]) for name in headers}
        if self._drop_cc:
            fields[_CC] = b""
        in_cycle = frozenset() if reason == REJECTED else queues_in_cycle(headers)
        return DeathRecord(fields, [] if self._drop_cc else copied, in_cycle)


def _field_at(fields: bytes, places: dict[bytes, tuple[int, int, int]], name: bytes) -> bytes:
    """An encoded field; empty if there is no field of this name."""
    place = places.get(name)
    return b"" if place is None else fields[place[1] : place[2]]


def without_deaths(header: ContentHeader) -> ContentHeader:
    """The header without the headers that record deaths.

    A message starts over when an operator retries it, so that it may die in the same queue
    again, and when a client publishes it to a node that behaves like RabbitMQ 4.
    """
    headers = {name: field for name, field in header.headers.items() if name not in DEATH_HEADERS}
    return header if len(headers) == len(header.headers) else header.replace(headers=headers)


def cc_keys(headers: Table) -> list[str]:
    """The routing keys of a well-formed CC header."""
    field = headers.get("CC")
    if field is None or field[0] != "A":
        return []
    return [value for letter, value in field[1] if letter == "S"]


def queues_in_cycle(headers: Table) -> frozenset[str]:
    """The names of the queues in which the message died since a client last rejected it."""
    deaths = headers.get("x-death")
    names: set[str] = set()
    if deaths is None or deaths[0] != "A":
        return frozenset()
    for letter, death in deaths[1]:
        if letter != "F" or death.get("reason") == ("S", REJECTED):
            break
        kind, name = death.get("queue", ("", None))
        if kind == "S":
            names.add(name)
    return frozenset(names)


def _death(
    address: Address, cc: list[str], queue: str, reason: str, time_s: int, expiration: str | None
) -> Table:
    death: Table = {
        "count": ("l", 1),
        "reason": ("S", reason),
        "queue": ("S", queue),
        "time": ("T", time_s),
        "exchange": ("S", address.exchange),
        "routing-keys": ("A", [("S", key) for key in (address.routing_key, *cc)]),
    }
    if expiration is not None:
        death["original-expiration"] = ("S", expiration)
    return death


def _record_death(headers: Table, death: Table, address: Address, queue: str, reason: str) -> None:
    known = headers.get("x-death")
    if known is None:
        _tell("first", headers, address, queue, reason)
    if known is None or known[0] != "A":
        headers["x-death"] = ("A", [("F", death)])
        return
    others: list[Field] = []
    for field in _merged(known[1]):
        if _place(field) == (queue, reason):
            death = {**field[1], "count": _next_count(field[1])}
        else:
            others.append(field)
    headers["x-death"] = ("A", [("F", death), *others])


def _merged(deaths: list[Field]) -> list[Field]:
    """Merge deaths: one entry, with a count, for each (queue, reason) pair.

    Nodes before RabbitMQ 3.5 added an entry for each death. Like RabbitMQ's
    `group_by_queue_and_reason`, this reverses the order if there are several.
    """
    if len(deaths) < 2:
        return deaths
    # A client may have put any values there, even some that cannot be keys of a dict.
    places = [repr(_place(field)) for field in deaths]
    counts = Counter(places)
    kept: list[Field] = []
    for field, place in zip(deaths, places, strict=True):
        if field[0] != "F":
            kept.append(field)
        elif counts[place]:
            kept.append(("F", {"count": ("l", counts[place]), **field[1]}))
            counts[place] = 0
    return kept[::-1]


def _tell(which: str, headers: Table, address: Address, queue: str, reason: str) -> None:
    for what, value in (("reason", reason), ("queue", queue), ("exchange", address.exchange)):
        headers[f"x-{which}-death-{what}"] = ("S", value)


def _place(field: Field) -> tuple[Any, Any] | None:
    """The values of queue and reason of a death; None if it is not a table."""
    letter, table = field
    if letter != "F":
        return None
    queue, reason = (table.get(name, ("V", None)) for name in ("queue", "reason"))
    return _value(queue), _value(reason)


def _value(field: Field) -> Any:
    """A value as RabbitMQ compares it: text and bytes are equal there."""
    letter, value = field
    return text_of(value) if letter == "x" else value


def _next_count(death: Table) -> Field:
    count = death.get("count")
    if count is None or not isinstance(count[1], int):
        return ("l", 1)
    return ("l", count[1] + 1)
