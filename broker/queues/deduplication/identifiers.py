"""The identifiers of messages, and a bounded memory of those that were published. Pure.

The identifier of a message is its header `x-deduplication-header`, as in the plugin
rabbitmq-message-deduplication: a text, bytes, a number, a boolean or no value. Two identifiers are
equal if their types and values are: the number 1 is not the text "1". Tables, arrays and values
longer than IDENTIFIER_BYTES_MAX are refused.

`KnownIdentifiers` keeps a key of each, of at most 17 bytes: the value if it is short, and otherwise
a digest. An identifier is known while its message is in the queue, and until its time is over; an
exchange has no messages, so there only the time counts. When there are too many, the one that was
added first is forgotten.

Invariants:

KI1  There are at most `size` identifiers.
KI2  `_keys` has exactly the present identifiers that were added with a position.
"""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import DEEP, INTEGER_LETTERS, Field
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_TTL,
    CACHE_TTL_MAX_MS,
    whole_number,
)
from leveret.broker.queues.contract.status import DeduplicationStatus

HEADER: Final = "x-deduplication-header"
IDENTIFIER_BYTES_MAX: Final = 4096
SIZE_DEFAULT: Final = 200_000
"""How many identifiers a queue knows unless `x-cache-size` says otherwise."""
ENTRY_BYTES: Final = 300
"""About the memory of one identifier."""
FOREVER: Final = 1 << 62
_DIGEST_BYTES: Final = 16
_SWEPT: Final = 2
"""How many identifiers may be forgotten whenever one is added: more than are added."""
_NO_VALUES: Final = {"A": "an array", "F": "a table", DEEP: "a table"}


def key_of(header: ContentHeader) -> bytes:
    """The key of a message's identifier; empty if it has none, or one that is refused."""
    field = header.headers.get(HEADER)
    if field is None or field[0] in _NO_VALUES:
        return b""
    value = _bytes_of(field)
    return b"" if len(value) > IDENTIFIER_BYTES_MAX else _key(field[0], value)


def check_identifier(header: ContentHeader) -> None:
    """Raise 406 if a message has an identifier, or a time for it, that is refused."""
    field = header.headers.get(HEADER)
    if field is None:
        return
    if CACHE_TTL in header.headers and ttl_ms_of(header) is None:
        raise precondition_failed(
            f"invalid header '{CACHE_TTL}': it must be a number of milliseconds from 0 to "
            f"{CACHE_TTL_MAX_MS}"
        )
    if field[0] in _NO_VALUES:
        raise precondition_failed(
            f"invalid header '{HEADER}': {_NO_VALUES[field[0]]} cannot be compared; it must be a "
            "string, a number or a boolean"
        )
    length = len(_bytes_of(field))
    if length > IDENTIFIER_BYTES_MAX:
        raise precondition_failed(
            f"invalid header '{HEADER}': it has {length} bytes and may have {IDENTIFIER_BYTES_MAX}"
        )


def ttl_ms_of(header: ContentHeader) -> int | None:
    """How long a message asks an exchange to know its identifier; None if it does not ask."""
    number = whole_number(header.headers.get(CACHE_TTL))
    return None if number is None or not 0 <= number <= CACHE_TTL_MAX_MS else number


def _bytes_of(field: Field) -> bytes:
    value = field[1]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return bytes(value) if isinstance(value, bytes | bytearray) else repr(value).encode()


def _key(letter: str, value: bytes) -> bytes:
    """The widths of numbers and the difference between text and bytes do not count."""
    kind = b"S" if letter in "Sx" else b"I" if letter in INTEGER_LETTERS else letter.encode()
    if len(value) < _DIGEST_BYTES:
        return kind + value
    return kind + blake2b(value, digest_size=_DIGEST_BYTES).digest()


class Known(NamedTuple):
    """An identifier. expires_at_ms: until when it is known at least. is_present: its message is in
    the queue. position: of the message, if the queue names messages by it; otherwise 0.
    """

    expires_at_ms: int
    is_present: bool
    position: int = 0


class KnownIdentifiers:
    """The identifiers that a queue or an exchange knows.

    size: how many at most. ttl_ms: how long a queue knows one after its message was published;
    0: while the message is in the queue.
    """

    __slots__ = ("_entries", "_keys", "size", "ttl_ms")

    def __init__(self, size: int = SIZE_DEFAULT, ttl_ms: int = 0) -> None:
        self._entries: OrderedDict[bytes, Known] = OrderedDict()
        self._keys: dict[int, bytes] = {}
        self.size = size
        self.ttl_ms = ttl_ms

    def __len__(self) -> int:
        return len(self._entries)

    def configure(self, size: int, ttl_ms: int) -> None:
        """Change the limits, with effect on those that are known."""
        self.size, self.ttl_ms = size, ttl_ms
        while len(self._entries) > size:
            self._forget_first()

    def has(self, key: bytes, now_ms: int) -> bool:
        """Whether the key is known."""
        known = self._entries.get(key)
        if known is None:
            return False
        if known.is_present or known.expires_at_ms > now_ms:
            return True
        del self._entries[key]
        return False

    def add_present(self, key: bytes, now_ms: int, position: int = 0) -> None:
        """A message with a key that is not known is in the queue now."""
        if self.ttl_ms:
            self._sweep(now_ms)
        self._add(key, Known(now_ms + self.ttl_ms, True, position))
        if position:
            self._keys[position] = key

    def add_until(self, key: bytes, until_ms: int, now_ms: int) -> None:
        """A message with a key that is not known has passed; it is known until a time."""
        self._sweep(now_ms)
        self._add(key, Known(until_ms, False))

    def _add(self, key: bytes, known: Known) -> None:
        while len(self._entries) >= self.size:
            self._forget_first()
        self._entries[key] = known

    def left(self, key: bytes, now_ms: int) -> None:
        """The message with a key has left the queue."""
        known = self._entries.get(key)
        if known is None or not known.is_present:
            return
        if known.position:
            self._keys.pop(known.position, None)
        if known.expires_at_ms <= now_ms:
            del self._entries[key]
        else:
            self._entries[key] = Known(known.expires_at_ms, False)

    def left_positions(self, first: int, last: int, now_ms: int) -> None:
        """The messages at these positions have left the queue."""
        keys = self._keys
        if keys:
            for position in range(first, last + 1):
                key = keys.get(position)
                if key is not None:
                    self.left(key, now_ms)

    def forget(self, key: bytes) -> None:
        """The message was not published after all."""
        known = self._entries.pop(key, None)
        if known is not None and known.position:
            self._keys.pop(known.position, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._keys.clear()

    def items(self) -> list[tuple[bytes, Known]]:
        """All of them, in the order in which they were added."""
        return list(self._entries.items())

    def restore(self, items: Iterable[tuple[bytes, Known]]) -> None:
        """Add what `items` has returned."""
        for key, known in items:
            self._entries[key] = known
            if known.position:
                self._keys[known.position] = key

    def status(self) -> DeduplicationStatus:
        """For management."""
        count = len(self._entries)
        return DeduplicationStatus(count, self.size, count * ENTRY_BYTES)

    def _sweep(self, now_ms: int) -> None:
        """Forget the first ones if their time is over. One that is present goes to the end."""
        for _ in range(_SWEPT):
            first = next(iter(self._entries.items()), None)
            if first is None or first[1].expires_at_ms > now_ms:
                return
            if first[1].is_present:
                self._entries.move_to_end(first[0])
            else:
                del self._entries[first[0]]

    def _forget_first(self) -> None:
        _, known = self._entries.popitem(last=False)
        if known.position:
            self._keys.pop(known.position, None)
